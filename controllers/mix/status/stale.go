// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
)

// marked is a pod that carries annotations: a record of the cluster state, or a pod as the API server has it.
type marked interface {
	Annotation(key string) (value string, found bool)
}

// live is a pod as the API server has it.
type live struct{ *corev1.Pod }

// Annotation implements marked.
func (l live) Annotation(key string) (value string, found bool) {
	value, found = l.Annotations[key]
	return value, found
}

// stale returns the annotations of a pod of a replica that differ from what they should be, with what they should be.
func (r *Controller) stale(g *clusterstate.Group, s *clusterstate.Assignment, p *clusterstate.Pod) map[string]string {
	if s.Place != clusterstate.Settled || !r.steers(p) {
		return nil
	}
	return differing(p, p.CostOrigin.Stays(p.Owner, g.Governing), s.Slot, g.Governing)
}

// steers reports whether the mix gives a replica its slot: a replica of another
// scheduler, or one that names a capacity type itself, is only counted. One that
// carries a slot was given it by the mix.
func (r *Controller) steers(p *clusterstate.Pod) bool {
	if _, has := p.Annotation(v1alpha1.SlotAnnotation); has {
		return true
	}
	return !p.Pinned && (p.UsesGate || slices.Contains(r.SchedulerNames, p.SchedulerName))
}

// noCost is the deletion cost of a replica that is to have none. No controller reads an empty one.
const noCost = ""

// differing returns what has to be written on a replica for it to carry its
// slot. It is a pure function. The deletion cost follows the slot unless it
// stays, whatever its value is. Where the mix leaves the costs to others, that
// of Berth is removed.
func differing(have marked, costStays bool, slot int, p *governing.Mix) map[string]string {
	var want map[string]string // made when something differs: every replica that changes comes here
	set := func(key, value string) {
		if found, has := have.Annotation(key); has && found == value {
			return
		}
		if want == nil {
			want = map[string]string{}
		}
		want[key] = value
	}
	set(v1alpha1.SlotAnnotation, strconv.Itoa(slot))
	set(v1alpha1.CapacityTypeAnnotation, p.Mix.TypeOf(slot).String())
	set(v1alpha1.MixAnnotation, p.Source)
	_, hasCost := have.Annotation(v1alpha1.PodDeletionCostAnnotation)
	switch {
	case costStays, p.RespectCosts && !hasCost:
	case p.RespectCosts:
		set(v1alpha1.PodDeletionCostAnnotation, noCost)
	default:
		set(v1alpha1.PodDeletionCostAnnotation, governing.DeletionCost(slot))
	}
	return want
}
