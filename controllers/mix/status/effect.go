// SPDX-License-Identifier: Apache-2.0

package status

import (
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/effect"
	"berth.dev/berth/internal/mix/rebalance"
)

// groupsOfOne reports that a mix has no effect on groups that have one replica each. ok is false where it has, or governs at most one
// such group.
func groupsOfOne(mine []rebalance.Entry) (c metav1.Condition, ok bool) {
	most, ok := effect.GroupsOfOne(groupsOf(mine))
	return condition(v1alpha1.ConditionGroupsOfOne, metav1.ConditionTrue, v1alpha1.ReasonAlwaysOnDemand,
		"%s: %s", most, most.Remedy()), ok
}

// pinned reports that pods name a capacity type themselves, and who wrote it. ok is false where none does.
func pinned(mine []rebalance.Entry) (c metav1.Condition, ok bool) {
	p := effect.PinsOf(groupsOf(mine))
	reason := v1alpha1.ReasonPinnedByPods
	if p.Kueue == p.Pinned {
		reason = v1alpha1.ReasonPinnedByKueue
	}
	return condition(v1alpha1.ConditionPinned, metav1.ConditionTrue, reason, "%s", p), p.Pinned > 0
}

func groupsOf(mine []rebalance.Entry) iter.Seq[*clusterstate.Group] {
	return func(yield func(*clusterstate.Group) bool) {
		for i := range mine {
			if !yield(&mine[i].Group) {
				return
			}
		}
	}
}

// parts adds to the status of a workload what its group is made of: a role, the pods of several controllers, units.
func parts(w *v1alpha1.WorkloadMix, g *clusterstate.Group) {
	w.Role = g.Governing.RoleName
	if g.Owners > 1 {
		w.Owners = number(g.Owners)
	}
	if !g.Units {
		return
	}
	w.Units = number(len(g.Assignments))
	for i := range g.Assignments {
		w.Pods += number(len(g.Assignments[i].Members()))
	}
}
