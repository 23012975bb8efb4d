// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"iter"
	"slices"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/effect"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/overview"
)

// groupsOfOne finds mixes that have no effect, because their groups have one replica each. It counts the groups, as the controller
// does: the controller may not run, and its message is for people.
func (p *patient) groupsOfOne(r *Report) {
	const check = "groups"
	if p.cluster.Missing("pods") || p.cluster.Missing(overview.MixesResource) {
		return
	}
	type found struct {
		mix string
		effect.OfOne
	}
	var all []found
	for _, m := range p.cluster.Mixes {
		if most, ok := effect.GroupsOfOne(p.groupsOf(m)); ok {
			all = append(all, found{m.Namespace + "/" + m.Name, most})
		}
	}
	if len(all) == 0 {
		r.add(OK, check, "", "no mix governs groups of one replica that never run on spot")
		return
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Or(cmp.Compare(b.Groups, a.Groups), cmp.Compare(a.mix, b.mix)) })
	for _, f := range all[:min(len(all), maxUnmet)] {
		r.add(Fail, check, f.Remedy(), "CapacityMix %s: %s", f.mix, f)
	}
	if more := len(all) - maxUnmet; more > 0 {
		r.add(Fail, check, "kubectl get mix -A -o yaml: condition GroupsOfOne", "and %d more", more)
	}
}

// groupsOf are the groups that a mix governs.
func (p *patient) groupsOf(m *v1alpha1.CapacityMix) iter.Seq[*clusterstate.Group] {
	return func(yield func(*clusterstate.Group) bool) {
		for _, g := range p.cluster.State.Current(m.Namespace) {
			if g.Governing.Source == governing.SourceCapacityMix+m.Name && !yield(g) {
				return
			}
		}
	}
}
