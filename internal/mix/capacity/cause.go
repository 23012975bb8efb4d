// SPDX-License-Identifier: Apache-2.0

package capacity

import corev1 "k8s.io/api/core/v1"

// Cause is why a node departs. It belongs to the beginning of the departure: what the tools mark later is a consequence.
type Cause string

// Causes. They are stable.
const (
	// Interruption: the provider reclaims the machine.
	Interruption Cause = "interruption"
	// Autoscaler: an autoscaler removes or replaces the node, and has checked that its pods fit elsewhere.
	Autoscaler Cause = "autoscaler"
	// Maintenance: an administrator, or the provider by a plan, drains the node.
	Maintenance Cause = "maintenance"
	// Health: the node is given up as broken.
	Health Cause = "health"
	// Deletion: the node is being deleted without a sign of the reason.
	Deletion Cause = "deletion"
	// Vanished: the node is gone, and nothing announced that.
	Vanished Cause = "vanished"
)

const (
	karpenterDisrupted = "karpenter-disrupted"
	// balancersLabel has the value of the handler once it has begun to cordon and drain. By default it sets no taint.
	balancersLabel = "node.kubernetes.io/exclude-from-external-load-balancers"
	nthName        = "aws-node-termination-handler"
)

// CauseOf returns the cause of a departure that begins with the node as it is: when it has the first signal, or vanishes.
//
// Karpenter taints a node before it deletes it where it consolidates or replaces it. Where it deletes the node first, as after
// an interruption, it sets the same taint afterwards: on a node that is being deleted, the taint is no sign of a cause.
func CauseOf(node *corev1.Node) Cause {
	s := signalOf(node)
	switch {
	case s != nil && (node.DeletionTimestamp == nil || s.reason != karpenterDisrupted):
		return s.cause
	case node.Spec.Unschedulable && node.Labels[balancersLabel] == nthName:
		return Interruption
	case node.Spec.Unschedulable:
		return Maintenance
	case node.DeletionTimestamp == nil:
		return Vanished
	}
	return Deletion
}

// Notice returns the reason of the signal by which the provider announces that it reclaims the machine, "" for none. The label of
// the aws-node-termination-handler is none: the handler sets it for whatever it drains for, such as the scale-in of a group.
func Notice(node *corev1.Node) string {
	if s := signalOf(node); s != nil && s.cause == Interruption {
		return s.reason
	}
	return ""
}

// Reclaimed reports whether the provider announces that it reclaims the machine, also where another signal counts for the cause.
func Reclaimed(node *corev1.Node) bool {
	for _, kind := range departingSignals {
		for i := range kind.signals {
			if s := &kind.signals[i]; s.cause == Interruption && kind.has(node, s) {
				return true
			}
		}
	}
	return false
}

// Lost reports whether a departure for this cause is a loss that others may follow at any moment, as in a storm. A node that
// is being deleted without another sign counts if it had pods to run: autoscalers delete empty ones. One
// that vanishes without any sign counts always: spot nodes that flap are empty from the second time on.
func (c Cause) Lost(empty bool) bool {
	return c == Interruption || c == Vanished || c == Deletion && !empty
}
