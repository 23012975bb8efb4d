// SPDX-License-Identifier: Apache-2.0

package perscheduler

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// ErrReasonGroupsOff is the reason for which a member of a pod group is not placed on its own.
const ErrReasonGroupsOff = "spec.schedulingGroup is set and this scheduler does not place groups: " +
	"start it with --feature-gates=GenericWorkload=true, or create the pod without the field"

// RefuseAlone refuses a member of a pod group in a scheduling cycle of its own: without the feature gate GenericWorkload the
// scheduler would place the members one by one, whatever their PodGroup requests. A pod that runs is resized on its own.
func RefuseAlone(state fwk.CycleState, pod *corev1.Pod) *fwk.Status {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.NodeName != "" || state.IsPodGroupSchedulingCycle() {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReasonGroupsOff)
}
