// SPDX-License-Identifier: Apache-2.0

package ungate

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/domains"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/plugins/internal/taints"
)

// confines are the domains of a pod: what its nodes must be, and the domains that it may get. avoids are the interruption domains in
// quarantine that it must not get, nil for none.
type confines struct {
	requires []corev1.NodeSelectorRequirement
	to       domains.Confinement
	avoids   *interruptions.Quarantine
}

// within returns the domains of a pod that is limited to a type, where its mix limits replicas in domains. It is an error that others of
// the group may fill those that the pod would need: the pod is tried again when one of them has its node.
func (u *Ungater) within(pod *corev1.Pod, t capacity.Type) (c confines, err error) {
	o := u.Ledger.Openings(pod.UID)
	if len(o.Limits) == 0 {
		return confines{}, nil
	}
	if c.to = o.Confined; !o.Decided {
		var ok bool
		if c.to, ok = domains.Release(o.Limits, u.candidates(pod, t)); !ok {
			return confines{}, errDomainsTaken
		}
	}
	c.requires = domains.Requirements(o.Limits, c.to)
	return c, nil
}

// avoids returns the interruption domains in quarantine that a pod with a spot slot excludes, nil for none: if it may fall back. Its
// affinity is final. If nodes do not come elsewhere, the pod is deleted after its wait, and the domains of its successor are those of then.
func (u *Ungater) avoids(pod *corev1.Pod, p *governing.Mix, t capacity.Type, within confines) *interruptions.Quarantine {
	q := u.Ledger.InQuarantine()
	if q == nil || t != capacity.Spot || !p.AvoidInterrupted || !p.BorrowOnDemand || !gate.Avoids(&pod.Spec, q) {
		return nil
	}
	usable := interruptions.Usable(u.onSpot(pod, p, within), taints.Compared())
	return q.Sparing(func(yield func(map[string]string) bool) {
		for n := range u.Ledger.Nodes() {
			if !n.OutsideQuarantine() {
				continue
			}
			if node, err := u.Nodes.Get(n.Name()); err == nil && usable(node) && !yield(node.Labels) {
				return
			}
		}
	})
}

// onSpot returns a pod as it is if it is limited to spot.
func (u *Ungater) onSpot(pod *corev1.Pod, p *governing.Mix, within confines) *corev1.Pod {
	onSpot := pod.DeepCopy()
	gate.Avoid(onSpot, within.avoids)
	u.label.Limit(&onSpot.Spec, capacity.Spot)
	gate.Require(onSpot, within.requires)
	gate.Tolerate(&onSpot.Spec, p.Tolerations[capacity.Spot])
	return onSpot
}

// candidates are the labels of the nodes of a type that take pods and that a pod selects itself.
func (u *Ungater) candidates(pod *corev1.Pod, t capacity.Type) iter.Seq[map[string]string] {
	selects := nodeaffinity.GetRequiredNodeAffinity(pod)
	return func(yield func(map[string]string) bool) {
		for n := range u.Ledger.Nodes() {
			if !n.Takes(t) {
				continue
			}
			node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name(), Labels: n.Labels()}}
			if match, err := selects.Match(&node); err == nil && match && !yield(n.Labels()) {
				return
			}
		}
	}
}
