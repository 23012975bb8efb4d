// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits is how pods find their ResourceLimit.
type Limits struct {
	// defaultNamespace is where a name is looked for that is not in the pod's own namespace. It must be the one that the
	// scheduler's plugin has. Default: empty, which means nowhere.
	//
	// +optional
	DefaultNamespace string `json:"defaultNamespace"`
}

func (l *Limits) validate(path *field.Path) field.ErrorList {
	if l.DefaultNamespace == "" {
		return nil
	}
	return named(path.Child("defaultNamespace"), l.DefaultNamespace, validation.IsDNS1123Label)
}
