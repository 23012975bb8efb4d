// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every custom resource of Berth.
const GroupName = "berth.dev"

var (
	// SchemeGroupVersion is the group and version of the types in this package.
	SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

	// SchemeBuilder collects the functions that add the types of this package to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the types of this package to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Kind returns the group-qualified form of an unqualified kind.
func Kind(kind string) schema.GroupKind {
	return SchemeGroupVersion.WithKind(kind).GroupKind()
}

// Resource returns the group-qualified form of an unqualified, plural resource name.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&CapacityMix{},
		&CapacityMixList{},
		&ResourceLimit{},
		&ResourceLimitList{},
		&DeploymentRecord{},
		&DeploymentRecordList{},
		&DeploymentTemplate{},
		&DeploymentTemplateList{},
		&Environment{},
		&EnvironmentList{},
		&DatabaseBackup{},
		&DatabaseBackupList{},
		&DatabaseBackupSchedule{},
		&DatabaseBackupScheduleList{},
		&DatabaseRestore{},
		&DatabaseRestoreList{},
		&SchedulingPolicy{},
		&SchedulingPolicyList{},
		&Reservation{},
		&ReservationList{},
		&SchedulingDecision{},
		&SchedulingDecisionList{},
	)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)

	return nil
}
