// SPDX-License-Identifier: Apache-2.0

// Package validation finds what is wrong with the spec of an Environment: the gRPC service refuses it then, and the controller does
// not run it. What has no error here can be rendered.
package validation

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

// Spec returns everything that is wrong with a spec, as far as that needs no cluster. What the CRD's own
// rules refuse is in it too, but for lengths and numbers of entries, so that callers get all errors at once.
func Spec(spec *v1alpha1.EnvironmentSpec) field.ErrorList {
	path := field.NewPath("spec")
	s := &spec.Stack
	components := stack.Components(s)
	var all field.ErrorList
	if len(components) == 0 {
		all = append(all, field.Required(path.Child("stack"),
			"must have a component: frontend, backend, database or one of additionalServices"))
	}
	for i := range components {
		all = append(all, validateComponent(&components[i])...)
	}
	all = append(all, validateDatabase(path.Child("stack", stack.Database), s.Database)...)
	if s.Backend != nil {
		all = append(all, validateSecret(path.Child("stack", stack.Backend, "secretRef"), s.Backend.SecretRef)...)
	}
	all = append(all, validateFrontend(path.Child("stack", stack.Frontend), s.Frontend)...)
	all = append(all, validateNetwork(path.Child("network"), spec.Network)...)
	all = append(all, validateWithin(path.Child("startTimeoutSeconds"), spec.StartTimeoutSeconds, 10, 86400)...)
	all = append(all, validateWithin(path.Child("cleanUpFailedSeconds"), spec.CleanUpFailedSeconds, 0, 604800)...)
	all = append(all, validatePlacement(path.Child("placement"), spec.Placement)...)
	all = append(all, validateNames(path.Child("stack", "additionalServices"), s.AdditionalServices, components)...)
	all = append(all, validateHostPorts(components)...)
	return append(all, validateVolumesOf(s, components)...)
}

// Exposure returns what is wrong with how the ports of an environment are exposed: byDefault is the exposure of environments that do
// not set it, and allowed are those that they may set beside it and None.
func Exposure(e *v1alpha1.Environment, byDefault v1alpha1.EnvironmentExposure, allowed []v1alpha1.EnvironmentExposure) *field.Error {
	allowed = append([]v1alpha1.EnvironmentExposure{v1alpha1.ExposureNone, byDefault}, allowed...)
	slices.Sort(allowed)
	if is := stack.ExposureOf(e, byDefault); !slices.Contains(allowed, is) {
		return field.NotSupported(field.NewPath("spec", "network", "exposure"), is, slices.Compact(allowed))
	}
	return nil
}
