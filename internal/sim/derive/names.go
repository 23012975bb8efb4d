// SPDX-License-Identifier: Apache-2.0

package derive

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// label is a DNS label that is most like a text.
func label(text, otherwise string) string {
	b := []byte(strings.ToLower(text))
	for i, c := range b {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			b[i] = '-'
		}
	}
	return cmp.Or(cut(strings.Trim(string(b), "-"), validation.DNS1123LabelMaxLength), otherwise)
}

// cut is the beginning of a DNS label.
func cut(name string, most int) string {
	if len(name) <= most {
		return name
	}
	return strings.TrimRight(name[:most], "-")
}

// unique has names that are there once.
type unique struct {
	taken map[string]bool
	// next is the number of the next name that begins with another one.
	next map[string]int
}

func newUnique() unique { return unique{taken: map[string]bool{}, next: map[string]int{}} }

// name returns a name, with a number where it is taken already. Names in different scopes may be equal.
func (u *unique) name(scope, name string) string {
	free := name
	for u.taken[scope+"/"+free] {
		key := scope + "/" + name
		u.next[key] = max(u.next[key], 1) + 1
		number := fmt.Sprintf("-%d", u.next[key])
		free = cut(name, validation.DNS1123LabelMaxLength-len(number)) + number
	}
	u.taken[scope+"/"+free] = true
	return free
}
