// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	schedschemev1 "k8s.io/kube-scheduler/config/v1"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// SchemeGroupVersion is the group and version of the types in this package. They are those of
// KubeSchedulerConfiguration, because the scheduler decodes plugin arguments of no other group.
var SchemeGroupVersion = schema.GroupVersion{Group: schedconfig.GroupName, Version: "v1"}

var (
	// The builder is the scheduler's own, which other modules such as scheduler-plugins share: each adds its kinds.
	localSchemeBuilder = &schedschemev1.SchemeBuilder

	// AddToScheme adds the v1 types to a scheme, together with all others in the shared builder.
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
	localSchemeBuilder.Register(RegisterDefaults)
}
