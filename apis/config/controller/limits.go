// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits configures how the ResourceLimits of pods are found.
type Limits struct {
	// defaultNamespace is the namespace of a ResourceLimit that does not exist in the pod's own namespace. It must
	// match the configuration of the scheduler's plugin. Defaults to empty, which means that only the pod's own
	// namespace is used.
	//
	// +optional
	DefaultNamespace string `json:"defaultNamespace"`
}

func (l *Limits) validate(path *field.Path) field.ErrorList {
	return namedIfSet(path.Child("defaultNamespace"), l.DefaultNamespace, validation.IsDNS1123Label)
}
