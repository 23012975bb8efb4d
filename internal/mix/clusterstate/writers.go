// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"bytes"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// Field managers under which Berth patches pods.
const (
	schedulerManager  = "berth-scheduler"
	controllerManager = "berth-controller"
)

var (
	costField = []byte(`"f:` + v1alpha1.PodDeletionCostAnnotation + `"`)
	slotField = []byte(`"f:` + v1alpha1.SlotAnnotation + `"`)
	// createdField is a field of the manager that created the pod.
	createdField = []byte(`"f:containers"`)
)

// CostByOthers reports whether the deletion cost of a pod is the user's: another
// field manager than Berth's owns the annotation. The API server records no
// manager for what it merges from a Binding, so a cost without one is the scheduler's.
func CostByOthers(o *corev1.Pod) bool {
	_, set := o.Annotations[v1alpha1.PodDeletionCostAnnotation]
	return set && managedByOthers(o, func(fields []byte) bool { return bytes.Contains(fields, costField) })
}

// slotByOthers reports whether another client has edited the slot of a pod since
// it was created. The manager that created the pod still owns a slot of the
// template after the Binding has replaced its value, so its entry proves nothing.
func slotByOthers(o *corev1.Pod) bool {
	_, set := o.Annotations[v1alpha1.SlotAnnotation]
	return set && managedByOthers(o, func(fields []byte) bool {
		return bytes.Contains(fields, slotField) && !bytes.Contains(fields, createdField)
	})
}

func managedByOthers(o *corev1.Pod, owns func(fields []byte) bool) bool {
	for i := range o.ManagedFields {
		e := &o.ManagedFields[i]
		if e.Manager != schedulerManager && e.Manager != controllerManager && e.FieldsV1 != nil && owns(e.FieldsV1.GetRawBytes()) {
			return true
		}
	}
	return false
}
