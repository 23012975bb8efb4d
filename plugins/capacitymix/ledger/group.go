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
	holders map[int]*seat
	// units are the seats of more than one pod, by name.
	units map[string]*seat
	// unassigned are settled seats without a slot of their own, by ID. They are assigned
	// again on the remaining slots whenever something changed under them, so
	// that their assignments never depend on the order of events.
	unassigned map[string]*seat
	taken      split.Slots // held, and the assignments of the unassigned seats
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
	// limits are nil unless the mix limits domains. wanted is how many replicas the group shall have, 0 where that is not known, and
	// seats how many it has. refused are pods that wait because domains are full.
	limits  *Limits
	wanted  int
	seats   int
	refused []*record
}

func newGroup(key governing.GroupKey) *group {
	return &group{
		key:        key,
		members:    map[types.UID]*record{},
		holders:    map[int]*seat{},
		unassigned: map[string]*seat{},
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

// keeps reports whether a pending seat would get its slot again: no lower one is free or, where pods are removed in any order, the
// slot is of the type that the group would lack without the seat, and no lower one of that type is free.
func (g *group) keeps(s *seat, anyOrder bool) bool {
	if !anyOrder || s.identity {
		return g.lowest() >= s.Slot
	}
	own, spot := g.mix.TypeOf(s.Slot), g.spots()
	if own == capacity.Spot {
		spot--
	}
	if g.mix.MissingType(g.inUse().Len()-1, spot) != own {
		return false
	}
	_, lower := g.mix.LowestOf(own, g.inUse(), &g.tried[own], s.Slot)
	return !lower
}

// recount has the slots in use counted again.
func (g *group) recount() { g.counted, g.tried = false, [numTypes]int{} }

// ahead gives a pod the lowest free slot of the type that it does not seek. If
// there is none, the pod goes on with its own.
func (g *group) ahead(r *record) bool {
	slot, found := g.mix.LowestOf(r.seeks.Other(), g.inUse(), new(int), min(r.tried().Below, split.MaxSlot+1))
	if !found || r.seat.many != nil {
		r.at().Stage = StageType
		return false
	}
	g.release(r.seat)
	g.take(r.seat, slot)
	return true
}

// reassign assigns slots to the unassigned seats, as mix.Assign does.
func (g *group) reassign() {
	if !g.outdated {
		return
	}
	g.outdated = false
	g.recount()
	g.taken.CopyFrom(&g.held)
	seats := make([]split.Pod, 0, len(g.unassigned))
	for _, s := range g.unassigned {
		seats = append(seats, s.Pod)
	}
	slices.SortFunc(seats, split.Older)
	g.mix.Fill(&g.taken, seats, func(p split.Pod, slot int) {
		g.unassigned[p.ID].assignment = small(slot)
	})
}

// take gives a free slot to a seat.
func (g *group) take(s *seat, slot int) {
	s.Slot = slot
	if g.held.Take(slot) && g.mix.TypeOf(slot) == capacity.Spot {
		g.spot++
	}
	g.holders[slot] = s
	// A slot that no unassigned seat chose is taken from none of them, so their
	// assignments stay as they are.
	g.taken.Take(slot)
}

// assign gives a settled seat the slot that it brings. A pending one has to give way,
// of settled ones the oldest stays; the others float.
func (g *group) assign(s *seat, slot int) {
	if slot == split.NoSlot {
		g.float(s, slot)
		return
	}
	holder := g.holders[slot]
	switch {
	case holder == nil:
		g.take(s, slot)
		g.outdated = true // an unassigned seat may have that slot
	case !holder.settled():
		holder.Slot = split.NoSlot
		g.take(s, slot)
	case split.Older(s.Pod, holder.Pod) < 0:
		g.take(s, slot)
		g.float(holder, slot)
	default:
		g.float(s, slot)
	}
}

// float makes a seat one without a slot of its own. It keeps the slot that it
// brought: it takes that when the holder leaves.
func (g *group) float(s *seat, brought int) {
	s.unassigned, s.Slot = true, brought
	g.unassigned[s.ID] = s
	g.outdated = true
}

// release takes its slot from a seat.
func (g *group) release(s *seat) {
	slot := s.Slot
	s.Slot = split.NoSlot
	if s.unassigned {
		s.unassigned = false
		delete(g.unassigned, s.ID)
		g.outdated = true
		g.recount()
		return
	}
	if slot == split.NoSlot || s.identity || g.holders[slot] != s {
		return
	}
	if g.held.Release(slot) && g.mix.TypeOf(slot) == capacity.Spot {
		g.spot--
	}
	g.tried = [numTypes]int{}
	delete(g.holders, slot)
	g.outdated = true
	if successor := g.successor(slot); successor != nil {
		delete(g.unassigned, successor.ID)
		successor.unassigned = false
		g.recount()
		g.take(successor, slot)
	}
}

// successor returns the oldest unassigned seat that brought a slot, nil if none did.
func (g *group) successor(slot int) *seat {
	var successor *seat
	for _, f := range g.unassigned {
		if f.Slot == slot && (successor == nil || split.Older(f.Pod, successor.Pod) < 0) {
			successor = f
		}
	}
	return successor
}

// waiting notes that a seat holds its slot without being settled.
func (g *group) waiting(s *seat) {
	g.topPending = max(g.topPending, s.Slot)
}

// highestPendingAbove returns the pods of the pending seat with the highest slot, if that is
// above the given one, of those that were not woken yet.
func (g *group) highestPendingAbove(slot int) []*corev1.Pod {
	if slot == g.topPending {
		g.topPending--
	}
	if slot >= g.topPending {
		return nil
	}
	top := g.highestPending()
	if top == nil {
		g.topPending = split.NoSlot
		return nil
	}
	g.topPending = top.seat.Slot
	if top.seat.Slot <= slot {
		return nil
	}
	return top.wake()
}

// wake returns the pods of the seat of a pending pod that wait, and notes that they were returned.
func (r *record) wake() (pods []*corev1.Pod) {
	for _, o := range r.seat.waitingIn(r) {
		o.woken = true
		pods = append(pods, o.pending)
	}
	return pods
}

// highestPending returns a pod of the pending seat with the highest slot that was not woken yet, nil for none.
func (g *group) highestPending() (top *record) {
	for _, r := range g.members {
		if s := r.seat; !s.settled() && r.pending != nil && !s.identity && !r.woken && (top == nil || s.Slot > top.seat.Slot) {
			top = r
		}
	}
	return top
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
