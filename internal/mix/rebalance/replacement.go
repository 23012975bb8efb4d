// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/mix/gate"
)

// Steered returns why the pod that an owner will create would not follow the mix; it has no reason if the pod will. From names
// the owner and the field that it is created from, schedulers are the profiles that place by the mix, and pins reports whether
// a pod names a capacity type itself.
func Steered(next *corev1.Pod, from string, schedulers []string, pins func(*corev1.PodSpec) bool) (v Verdict) {
	switch s := &next.Spec; {
	case s.NodeName != "":
		v = ReasonFixedNode.because("spec.nodeName of the pod that is created from %s is %s, so a replacement runs there", from, s.NodeName)
	case !gate.Has(next) && !slices.Contains(schedulers, s.SchedulerName):
		v = ReasonOtherScheduler.because("spec.schedulerName of the pod that is created from %s is %s, which does not place by the mix",
			from, s.SchedulerName)
	case pins(s):
		v = ReasonPinned.because("spec.nodeSelector or spec.affinity of the pod that is created from %s names a capacity type", from)
	case s.SchedulingGroup != nil:
		v = ReasonPodGroupMember.because("spec.schedulingGroup of the pod that is created from %s names a PodGroup", from)
	}
	return v
}
