// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/rules"
	"berth.dev/berth/internal/policies/score"
)

// signerName is the key of what the plugin adds to a pod's signature.
const signerName = "berth.dev.SchedulingPolicy"

// ErrReasonNotSigned is the reason for which a pod has no signature. It is logged.
const ErrReasonNotSigned = "the pod's SchedulingPolicy has state, or scores depend on the nodes of other pods"

// notSigned is shared, like skip: the framework does not change the status of a SignPod.
var notSigned = fwk.NewStatus(fwk.Unschedulable, ErrReasonNotSigned)

// SignPod signs a pod by its policy if one placement changes the score of one node only, and the strategy has no state. It is
// called under the lock of the scheduling queue.
func (pl *SchedulingPolicy) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if !pl.HasSynced() {
		return nil, notSigned
	}
	g := pl.governorOf(pod)
	if g == nil {
		return nil, nil
	}
	if !signable(g.rules, pod) || !pl.ranksAll() {
		return nil, notSigned
	}
	return []fwk.SignFragment{{Key: signerName, Value: g.key}}, nil
}

// signable reports whether rules score a node for a pod by what is on that node alone.
func signable(r *rules.Rules, pod *corev1.Pod) bool {
	if !score.Stateless(r.TieBreaker) || r.NeedsAffinity() && pod.Spec.Affinity != nil && pod.Spec.Affinity.PodAffinity != nil {
		return false
	}
	return !slices.ContainsFunc(r.Functions, func(f rules.Function) bool {
		switch f.Name {
		case v1alpha1.ScoreResourceBalance, v1alpha1.ScoreBinpacking, v1alpha1.ScorePreferredAffinity:
			return false
		}
		return true
	})
}

// ranksAll reports whether every node of the cluster gets points in its order, as the last scored pod found.
func (sh *shared) ranksAll() bool {
	nodes := sh.nodes.Load()
	return nodes > 0 && nodes <= int64(maxRanked)
}
