// SPDX-License-Identifier: Apache-2.0

package ungate

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/domains"
)

// confines are the domains of a pod: what its nodes must be, and the domains that it may get.
type confines struct {
	requires []corev1.NodeSelectorRequirement
	to       domains.Confinement
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
