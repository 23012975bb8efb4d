// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/internal/policies/score"
)

// constraints reads how evenly the pod's constraints with ScheduleAnyway are met on each node. Without any, all nodes are
// even.
func (a *attempt) constraints() {
	soft := 0
	for i := range a.pod.Spec.TopologySpreadConstraints {
		c := &a.pod.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != corev1.ScheduleAnyway {
			continue
		}
		soft++
		a.constraint(c)
	}
	for i := range a.nodes {
		f := &a.table.facts[i]
		if soft == 0 {
			f.Constraint = score.Max
			continue
		}
		f.Constraint /= float64(soft)
		f.SkewPenalty /= float64(soft)
	}
}

// constraint adds the evenness of one constraint to the facts. A node without the label adds none: it is as bad as the
// fullest domain.
func (a *attempt) constraint(c *corev1.TopologySpreadConstraint) {
	counts := a.matching(c)
	least, most := math.MaxInt, 0
	for _, count := range counts {
		least, most = min(least, count), max(most, count)
	}
	for i, n := range a.nodes {
		domain, has := n.Node().Labels[c.TopologyKey]
		if !has {
			continue
		}
		evenness, penalty := score.Evenness(counts[domain], min(least, most), most, c.MaxSkew)
		a.table.facts[i].Constraint += evenness
		a.table.facts[i].SkewPenalty += penalty
	}
}

// matching returns the number of pods that match a constraint, by domain, of the nodes that the pod may run on by its own node
// affinity, unless the constraint ignores it.
func (a *attempt) matching(c *corev1.TopologySpreadConstraint) map[string]int {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		selector = labels.Nothing() // the API server does not accept it
	}
	required := nodeaffinity.GetRequiredNodeAffinity(a.pod)
	honor := c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor
	counts := map[string]int{}
	for _, n := range a.all {
		node := n.Node()
		domain, has := node.Labels[c.TopologyKey]
		if !has {
			continue
		}
		if honor {
			if match, err := required.Match(node); err != nil || !match {
				continue
			}
		}
		counts[domain] += a.matchingOn(n, selector)
	}
	return counts
}

// matchingOn counts the pods of the namespace on a node that a selector matches and that are not being deleted.
func (a *attempt) matchingOn(n fwk.NodeInfo, selector labels.Selector) (count int) {
	for _, p := range n.GetPods() {
		pod := p.GetPod()
		if pod.Namespace == a.pod.Namespace && pod.DeletionTimestamp == nil && selector.Matches(labels.Set(pod.Labels)) {
			count++
		}
	}
	return count
}
