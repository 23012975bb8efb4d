// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/mix/gate"
)

const (
	// ReasonReplacementUnknown means that the pod template of the owner cannot be read, so that the next pod is unknown.
	ReasonReplacementUnknown Reason = "ReplacementUnknown"
	// ReasonReplacementRefused means that the API server refuses the pod that the owner would create.
	ReasonReplacementRefused Reason = "ReplacementRefused"
)

// Steered returns why the pod that an owner will create would not follow the mix, "" if it will. From names the owner and the
// field that it is created from, schedulers are the profiles that place by the mix, and pins reports whether a pod names a
// capacity type itself.
func Steered(next *corev1.Pod, from string, schedulers []string, pins func(*corev1.PodSpec) bool) (r Reason, message string) {
	switch s := &next.Spec; {
	case s.NodeName != "":
		return ReasonFixedNode, fmt.Sprintf("spec.nodeName of the pod that is created from %s is %s, so a replacement runs there", from, s.NodeName)
	case !gate.Has(next) && !slices.Contains(schedulers, s.SchedulerName):
		return ReasonOtherScheduler, fmt.Sprintf("spec.schedulerName of the pod that is created from %s is %s, which does not place by the mix",
			from, s.SchedulerName)
	case pins(s):
		return ReasonPinned, fmt.Sprintf("spec.nodeSelector or spec.affinity of the pod that is created from %s names a capacity type", from)
	case s.SchedulingGroup != nil:
		return ReasonPodGroupMember, fmt.Sprintf("spec.schedulingGroup of the pod that is created from %s names a PodGroup", from)
	}
	return "", ""
}
