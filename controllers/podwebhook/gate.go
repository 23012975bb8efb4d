// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
)

// Outcomes of an admission for the pod's mix, as the metric names them.
const (
	// outcomeGated: the pod got the gate.
	outcomeGated = "gated"
	// outcomeOwnGate: the pod has the gate already.
	outcomeOwnGate = "own-gate"
	// outcomeTolerating: the pod got tolerations of its mix.
	outcomeTolerating = "tolerating"
	// outcomePinned: the pod names a capacity type itself.
	outcomePinned = "pinned"
	// outcomeUngoverned: no mix governs the pod, or it has a node.
	outcomeUngoverned = "ungoverned"
	// outcomeAsItIs: a mix governs the pod and requires no change here.
	outcomeAsItIs = "as-it-is"
	// outcomeUnknown: the mixes were not read yet.
	outcomeUnknown = "unknown"
)

// steer gives a pod what its mix requests: the gate, at which its capacity type
// is decided, or else the tolerations of both types, as its type is not known
// yet. A pod that chose its type, or has a node, is counted and not steered.
// Doing it again changes nothing.
func steer(pod *corev1.Pod, p *governing.Mix, pinned, gated bool) (outcome string) {
	switch {
	case gate.Has(pod):
		return outcomeOwnGate
	case p == nil || pod.Spec.NodeName != "":
		return outcomeUngoverned
	case pinned:
		return outcomePinned
	case gated:
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: v1alpha1.CapacityMixGate})
		return outcomeGated
	}
	before := len(pod.Spec.Tolerations)
	for _, t := range []capacity.Type{capacity.Spot, capacity.OnDemand} {
		gate.Tolerate(&pod.Spec, p.Tolerations[t])
	}
	if len(pod.Spec.Tolerations) == before {
		return outcomeAsItIs
	}
	return outcomeTolerating
}
