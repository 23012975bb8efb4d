// SPDX-License-Identifier: Apache-2.0

package config

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// SchemeGroupVersion is the group and internal version of the types in this package. It is the scheduler's own group,
// because the scheduler decodes plugin arguments of no other group.
var SchemeGroupVersion = schema.GroupVersion{Group: schedconfig.GroupName, Version: runtime.APIVersionInternal}

var (
	// The builder is the scheduler's own, which other modules such as scheduler-plugins share: each adds its kinds.
	localSchemeBuilder = &schedconfig.SchemeBuilder

	// AddToScheme adds the internal types to a scheme, together with all others in the shared builder.
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

func init() {
	localSchemeBuilder.Register(addKnownTypes)
}
