// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"strings"
)

// Target is an object that an argument names: NAME, or KIND/NAME as kubectl has it.
type Target struct {
	// Kind is any word that the API server has for a kind, "" if the argument has none.
	Kind, Name string
}

// TargetOf reads an argument.
func TargetOf(arg string) (Target, error) {
	kind, name, has := strings.Cut(arg, "/")
	if !has {
		kind, name = "", arg
	}
	if name == "" || has && kind == "" || strings.Contains(name, "/") {
		return Target{}, fmt.Errorf("%q must be NAME or KIND/NAME, such as deployment/web", arg)
	}
	return Target{kind, name}, nil
}
