// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

const (
	castDraining    = "autoscaling.cast.ai/draining"
	castInterrupted = "spot-interruption"

	reasonDeleted = "node-deleted"
	reasonDrain   = "berth-drain"
)

// A signal counts if a termination or a drain is in progress. Advice does not count, because nothing may follow: the
// pods of a departing node release their slots, and a released slot of a node that stays violates the mix.
type signal struct {
	key    string
	value  string // the value that counts; empty means any
	reason string // stable: shown to users and used as a metric label
	cause  Cause
}

// departingTaints match by key whatever the effect: the effect is often a setting of the tool (--taint-effect of
// aws-node-termination-handler) that only determines how the taint is enforced.
//
// Omitted on purpose:
//   - aws-node-termination-handler/rebalance-recommendation: elevated risk, often hours before or without an interruption;
//     by default the handler only cordons the node. If it drains, the pods are Terminating, which releases their slots,
//     and the cordon keeps new pods away. Counting it has no benefit, and violates the mix if nothing follows.
//   - DeletionCandidateOfClusterAutoscaler: soft, added and removed while the autoscaler decides.
//   - node.kubernetes.io/unschedulable: a plain cordon. Users cordon nodes to keep them.
//   - node.kubernetes.io/not-ready, unreachable: mostly temporary; the eviction that follows is visible on the pods.
var departingTaints = []signal{
	{key: "aws-node-termination-handler/spot-itn", reason: "aws-spot-interruption", cause: Interruption},
	{key: "aws-node-termination-handler/scheduled-maintenance", reason: "aws-scheduled-maintenance", cause: Maintenance},
	{key: "aws-node-termination-handler/asg-lifecycle-termination", reason: "aws-asg-termination", cause: Deletion},
	{key: "karpenter.sh/disrupted", reason: "karpenter-disrupted", cause: Autoscaler},
	// Karpenter before v1. Its design also had the value "candidate", which is only a plan.
	{key: "karpenter.sh/disruption", value: "disrupting", reason: "karpenter-disrupted", cause: Autoscaler},
	{key: "ToBeDeletedByClusterAutoscaler", reason: "cluster-autoscaler-scale-down", cause: Autoscaler},
	{key: "cloud.google.com/impending-node-termination", reason: "gke-termination-notice", cause: Interruption},
	{key: "remediator.kubernetes.azure.com/unschedulable", reason: "aks-node-drain", cause: Interruption},
	{key: "remediator.aks.microsoft.com/unschedulable", reason: "aks-node-drain", cause: Interruption},
	{key: "node.cloudprovider.kubernetes.io/shutdown", reason: "cloud-shutdown", cause: Deletion},
	{key: castDraining, value: castInterrupted, reason: "cast-draining", cause: Interruption},
	{key: castDraining, reason: "cast-draining", cause: Autoscaler},
	{key: corev1.TaintNodeOutOfService, reason: "out-of-service", cause: Health},
}

// departingLabels omit node.kubernetes.io/exclude-from-external-load-balancers=aws-node-termination-handler: the
// handler sets it when it drains, but does not remove it from a node that stays (its removal skips exactly the value
// that it set), so the node would be departing indefinitely.
var departingLabels = []signal{
	{key: castDraining, value: castInterrupted, reason: "cast-draining", cause: Interruption},
	{key: castDraining, reason: "cast-draining", cause: Autoscaler},
	{key: "cloud.google.com/active-node-maintenance", value: "ONGOING", reason: "gke-maintenance", cause: Maintenance},
	// The only signal of a drain for a scheduled reboot if the handler runs without --taint-node. Removed after the
	// reboot.
	{key: "aws-node-termination-handler/action", value: "UncordonAfterReboot", reason: "aws-scheduled-maintenance", cause: Maintenance},
}

// Karpenter sets this annotation on the NodeClaim and copies the claim's annotations to the node when it registers.
//
// kubectl berth drain sets the other one, which counts while the node is cordoned: whoever uncordons it keeps it.
var departingAnnotations = []signal{
	{key: "berth.dev/drain", reason: reasonDrain, cause: Maintenance},
	{key: "karpenter.sh/nodeclaim-termination-timestamp", reason: "karpenter-termination", cause: Deletion},
}

// departingConditions count with status True. Two of AKS are omitted: VMEventScheduled is also True for a freeze of a
// few seconds and for a reboot, PreemptionScheduled also for advice. When AKS drains, its remediator taint reports it.
//
// MaintenancePlanned is omitted, because nothing may follow. Drained counts like the drain before it: when a drain ends,
// the administrator may clear DrainInProgress long before the node is deleted or cleared for pods again.
var departingConditions = []signal{
	// The termination handler of OpenShift, on AWS, Azure and GCP alike.
	{key: "Terminating", reason: "openshift-terminating", cause: Interruption},
	{key: string(corev1.NodeDrainInProgress), reason: "node-drain", cause: Maintenance},
	{key: string(corev1.NodeDrained), reason: "node-drain", cause: Maintenance},
	{key: string(corev1.NodeMaintenanceInProgress), reason: "node-maintenance", cause: Maintenance},
	{key: string(corev1.NodeGracefulNodeShutdownInProgress), reason: "node-shutdown", cause: Deletion},
}

// closedTaints currently reject nearly every pod, so a sample should not include the node. They count with effect
// NoSchedule or NoExecute. memory-pressure is not included: every pod but BestEffort tolerates it.
var closedTaints = []string{
	corev1.TaintNodeNotReady,
	corev1.TaintNodeUnreachable,
	corev1.TaintNodeUnschedulable,
	corev1.TaintNodeNetworkUnavailable,
	corev1.TaintNodeDiskPressure,
	corev1.TaintNodePIDPressure,
}

// Staying returns a function that reports whether a node is of a type and not departing: the scheduler places the pods of that type there.
func (c *Classifier) Staying(t Type) func(*corev1.Node) bool {
	return func(n *corev1.Node) bool {
		found, _ := c.Classify(n)
		_, departing := Departing(n)
		return found == t && !departing
	}
}

// Departing reports whether the node is being terminated, drained permanently or deleted, with a short stable reason
// that identifies the signal. A plain cordon is not departing.
func Departing(node *corev1.Node) (reason string, departing bool) {
	if node == nil {
		return "", false
	}
	if node.DeletionTimestamp != nil {
		return reasonDeleted, true
	}
	if s := signalOf(node); s != nil {
		return s.reason, true
	}
	return "", false
}

// signalOf returns the first signal of a node, nil if it has none.
func signalOf(node *corev1.Node) *signal {
	for _, kind := range departingSignals {
		for i := range kind.signals {
			if s := &kind.signals[i]; kind.has(node, s) {
				return s
			}
		}
	}
	return nil
}

// departingSignals are all signals, in the order in which they count, with how a node has them.
var departingSignals = []struct {
	signals []signal
	has     func(*corev1.Node, *signal) bool
}{
	{departingTaints, func(node *corev1.Node, s *signal) bool {
		return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return s.key == t.Key && s.accepts(t.Value) })
	}},
	{departingLabels, func(node *corev1.Node, s *signal) bool { return s.in(node.Labels) }},
	{departingAnnotations, func(node *corev1.Node, s *signal) bool {
		return s.in(node.Annotations) && (s.reason != reasonDrain || node.Spec.Unschedulable)
	}},
	{departingConditions, func(node *corev1.Node, s *signal) bool {
		return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return s.key == string(c.Type) && c.Status == corev1.ConditionTrue
		})
	}},
}

func (s *signal) accepts(value string) bool { return s.value == "" || s.value == value }

// in reports whether labels or annotations have the signal.
func (s *signal) in(pairs map[string]string) bool {
	value, ok := pairs[s.key]
	return ok && s.accepts(value)
}

// Accepting reports whether a sample of candidates should include the node: not cordoned, not departing, ready and
// registered. It is a hint about cost: the taint filter decides.
func Accepting(node *corev1.Node) bool {
	if node == nil || node.Spec.Unschedulable {
		return false
	}
	closed := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		hard := t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
		return hard && slices.Contains(closedTaints, t.Key)
	})
	_, departing := Departing(node)
	return !closed && !departing && !halfRegistered(node)
}
