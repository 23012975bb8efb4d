// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// noDomain marks a pod that is counted in no interruption domain, or in no zone.
const noDomain = -1

// group is the pods that one mix is kept for. Guarded by Ledger.mu.
type group struct {
	key     governing.GroupKey
	members map[types.UID]*record
	mix     split.Mix

	// held are the slots that pods hold as their own, and by whom.
	held    split.Slots
	holders map[int]*record
	// unassigned are bound pods without a slot of their own. They are assigned
	// again on the remaining slots whenever something changed under them, so
	// that their assignments never depend on the order of events.
	unassigned map[types.UID]*record
	taken      split.Slots // held, and the assignments of the unassigned pods
	outdated   bool        // taken is out of date

	// spot is how many of the slots in use are of type spot, if counted is set; tried are those of each type that are known to be
	// taken. Both are for pods that are removed in any order.
	spot    int
	counted bool
	tried   [numTypes]int

	// topPending is an upper bound of the slots that pending pods hold.
	topPending int

	domains []int32     // spot pods per interruption domain by the configured labels
	own     *ownDomains // in place of domains, for a group that names labels of its own
	zones   []int32     // pods per zone
	hosts   map[string]int32
	// siblings are nil until Siblings is called.
	siblings *siblings
}

func newGroup(key governing.GroupKey) *group {
	return &group{
		key:        key,
		members:    map[types.UID]*record{},
		holders:    map[int]*record{},
		unassigned: map[types.UID]*record{},
		hosts:      map[string]int32{},
		topPending: split.NoSlot,
	}
}

// inUse returns the slots that are not free.
func (g *group) inUse() *split.Slots {
	if len(g.unassigned) == 0 {
		return &g.held
	}
	g.reassign()
	return &g.taken
}

// lowest returns the lowest free slot.
func (g *group) lowest() int { return g.inUse().Lowest() }

// next returns the slot of one more pod: the lowest free slot or, where pods are removed in any order, the lowest free one of the type
// that is missing from the split.
func (g *group) next(anyOrder bool) int {
	lowest, n := g.lowest(), g.inUse().Len()
	if !anyOrder || lowest == n { // without a gap both are the same
		return lowest
	}
	t := g.mix.MissingType(n, g.spots())
	if slot, found := g.mix.LowestOf(t, g.inUse(), &g.tried[t], split.MaxSlot+1); found {
		return slot
	}
	return lowest
}

// spots counts the slots in use that are of type spot.
func (g *group) spots() int {
	slots := g.inUse()
	if !g.counted {
		g.spot, g.counted = g.mix.SpotSlots(slots), true
	}
	return g.spot
}

// keeps reports whether a pending pod would get its slot again: no lower one is free or, where pods are removed in any order, the slot
// is of the type that the group would lack without the pod, and no lower one of that type is free.
func (g *group) keeps(r *record, anyOrder bool) bool {
	if !anyOrder || r.identity {
		return g.lowest() >= r.pod.Slot
	}
	own, spot := g.mix.TypeOf(r.pod.Slot), g.spots()
	if own == capacity.Spot {
		spot--
	}
	if g.mix.MissingType(g.inUse().Len()-1, spot) != own {
		return false
	}
	_, lower := g.mix.LowestOf(own, g.inUse(), &g.tried[own], r.pod.Slot)
	return !lower
}

// recount has the slots in use counted again.
func (g *group) recount() { g.counted, g.tried = false, [numTypes]int{} }

// ahead gives a pod the lowest free slot of the type that it does not seek. If
// there is none, the pod goes on with its own.
func (g *group) ahead(r *record) bool {
	slot, found := g.mix.LowestOf(r.seeks.Other(), g.inUse(), new(int), min(r.attempt.Below, split.MaxSlot+1))
	if !found {
		r.attempt.Stage = StageType
		return false
	}
	g.release(r)
	g.take(r, slot)
	return true
}

// reassign assigns slots to the unassigned pods, as mix.Assign does.
func (g *group) reassign() {
	if !g.outdated {
		return
	}
	g.outdated = false
	g.recount()
	g.taken.CopyFrom(&g.held)
	pods := make([]split.Pod, 0, len(g.unassigned))
	for _, r := range g.unassigned {
		pods = append(pods, r.pod)
	}
	slices.SortFunc(pods, split.Older)
	g.mix.Fill(&g.taken, pods, func(p split.Pod, slot int) {
		g.unassigned[types.UID(p.ID)].assignment = slot
	})
}

// take gives a free slot to a pod.
func (g *group) take(r *record, slot int) {
	r.pod.Slot = slot
	if g.held.Take(slot) && g.mix.TypeOf(slot) == capacity.Spot {
		g.spot++
	}
	g.holders[slot] = r
	// A slot that no unassigned pod chose is taken from none of them, so their
	// assignments stay as they are.
	g.taken.Take(slot)
}

// assign gives a bound pod the slot that it brings. A pending pod has to give way,
// of bound pods the oldest stays; the others float.
func (g *group) assign(r *record, slot int) {
	if slot == split.NoSlot {
		g.float(r, slot)
		return
	}
	holder := g.holders[slot]
	switch {
	case holder == nil:
		g.take(r, slot)
		g.outdated = true // an unassigned pod may have sat there
	case holder.state == claimed:
		holder.pod.Slot = split.NoSlot
		g.take(r, slot)
	case split.Older(r.pod, holder.pod) < 0:
		g.take(r, slot)
		g.float(holder, slot)
	default:
		g.float(r, slot)
	}
}

// float makes a pod one without a slot of its own. The record keeps the slot that
// is on the pod: the pod takes it when the holder leaves.
func (g *group) float(r *record, brought int) {
	r.unassigned, r.pod.Slot = true, brought
	g.unassigned[r.uid] = r
	g.outdated = true
}

// release takes its slot from a pod.
func (g *group) release(r *record) {
	slot := r.pod.Slot
	r.pod.Slot = split.NoSlot
	if r.unassigned {
		r.unassigned = false
		delete(g.unassigned, r.uid)
		g.outdated = true
		g.recount()
		return
	}
	if slot == split.NoSlot || r.identity || g.holders[slot] != r {
		return
	}
	if g.held.Release(slot) && g.mix.TypeOf(slot) == capacity.Spot {
		g.spot--
	}
	g.tried = [numTypes]int{}
	delete(g.holders, slot)
	g.outdated = true
	if successor := g.successor(slot); successor != nil {
		delete(g.unassigned, successor.uid)
		successor.unassigned = false
		g.recount()
		g.take(successor, slot)
	}
}

// successor returns the oldest unassigned pod that brought a slot, nil if none did.
func (g *group) successor(slot int) *record {
	var successor *record
	for _, f := range g.unassigned {
		if f.pod.Slot == slot && (successor == nil || split.Older(f.pod, successor.pod) < 0) {
			successor = f
		}
	}
	return successor
}

// waiting notes that a pod holds its slot without being bound.
func (g *group) waiting(r *record) {
	g.topPending = max(g.topPending, r.pod.Slot)
}

// highestPendingAbove returns the pending pod with the highest slot, if that is
// above the given one, of those that were not woken yet.
func (g *group) highestPendingAbove(slot int) *corev1.Pod {
	if slot == g.topPending {
		g.topPending--
	}
	if slot >= g.topPending {
		return nil
	}
	var top *record
	for _, r := range g.members {
		if r.state == claimed && r.pending != nil && !r.identity && !r.woken && (top == nil || r.pod.Slot > top.pod.Slot) {
			top = r
		}
	}
	if top == nil {
		g.topPending = split.NoSlot
		return nil
	}
	g.topPending = top.pod.Slot
	if top.pod.Slot <= slot {
		return nil
	}
	top.woken = true
	return top.pending
}

// pending appends the members that wait to be bound.
func (g *group) pending(pods []*corev1.Pod) []*corev1.Pod {
	for _, r := range g.members {
		if (r.state == claimed || r.state == ungated) && r.pending != nil {
			pods = append(pods, r.pending)
		}
	}
	return pods
}

// oneMore adds one to the count of a domain or zone.
func oneMore(counts []int32, number int32) []int32 {
	for int(number) >= len(counts) {
		counts = append(counts, 0)
	}
	counts[number]++
	return counts
}

// onHost adds to the count of the pods on a node, "" for none.
func (g *group) onHost(node string, by int32) {
	if node == "" {
		return
	}
	if g.hosts[node] += by; g.hosts[node] == 0 {
		delete(g.hosts, node)
	}
}
