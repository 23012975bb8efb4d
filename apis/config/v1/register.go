// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/apis/config"
)

// SchemeGroupVersion is the group and version of the types in this package. They are those of
// KubeSchedulerConfiguration, because the scheduler decodes plugin arguments of no other group.
var SchemeGroupVersion = schema.GroupVersion{Group: config.GroupName, Version: "v1"}

var (
	// SchemeBuilder collects what AddToScheme does.
	SchemeBuilder      = runtime.NewSchemeBuilder(addKnownTypes, RegisterDefaults)
	localSchemeBuilder = &SchemeBuilder // the generated code adds the conversions

	// AddToScheme adds the v1 types to a scheme, with their defaults and their conversions.
	AddToScheme = localSchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&CapacityMixArgs{},
		&ResourceLimitArgs{},
		&SchedulingPolicyArgs{},
	)

	return nil
}
