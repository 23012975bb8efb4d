// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/domains"
	"berth.dev/berth/internal/mix/split"
)

// seat is what holds a slot: a pod, or a unit of pods. Its fields are guarded by Ledger.mu.
//
// Its split.Pod has what decides about its slot: the age of its oldest settled pod, and the type that it runs on. A pod is settled
// once its node, or its type, is given.
type seat struct {
	split.Pod
	// one is the pod of a seat, nil for a unit, which has many.
	one  *record
	many *unit
	// assignment is the slot of an unassigned seat, unless the group is outdated.
	assignment int32
	// identity: the slot follows from what the seat is; it is not exclusive.
	identity bool
	// anyOrder is that of the last claim.
	anyOrder bool
	// open counts the pods without a node that may get one without this scheduler, where domains are limited, and confined has the domains
	// that they may get.
	open     int32
	confined domains.Confinement
	// unassigned: settled, without a slot of its own or beaten to it; see group.reassign.
	unassigned bool
}

// unit is the pods that hold one slot together.
type unit struct {
	name string
	pods map[types.UID]*record
	// settled is how many of the pods are settled, and on counts the pods by the type that they run on, or may turn out to run on.
	settled int
	on      [numTypes]int
	// oldest is the oldest settled pod, nil if none is, and bringer the oldest of those that bring a slot.
	oldest, bringer *record
	// doubts is how many pods may have got the slot by a write without an answer. While there are some, the slot stays.
	doubts int
}

// unit is the name of a seat's unit, "" for a pod on its own.
func (s *seat) unit() string {
	if s.many == nil {
		return ""
	}
	return s.many.name
}

// settled reports whether a pod of the seat is settled.
func (s *seat) settled() bool {
	if s.many == nil {
		return s.one.state != claimed
	}
	return s.many.settled > 0
}

// doubtful reports whether a pod of the seat may have got its slot.
func (s *seat) doubtful() bool {
	if s.many == nil {
		return s.one.doubt
	}
	return s.many.doubts > 0
}

// brought is the slot that the oldest settled pod brings that brings one, NoSlot for none.
func (s *seat) brought() int {
	switch {
	case s.many == nil && s.one.state != claimed:
		return int(s.one.brought)
	case s.many != nil && s.many.bringer != nil:
		return int(s.many.bringer.brought)
	}
	return split.NoSlot
}

// older orders the pods of a seat by age, ties by UID.
func older(a, b *record) bool {
	return a.created < b.created || a.created == b.created && a.uid < b.uid
}

// join adds a pod. A change of what the seat depends on is made between leave and join.
func (s *seat) join(r *record) {
	if r.seat = s; s.many == nil {
		s.one = r
		return
	}
	u := s.many
	u.pods[r.uid] = r
	u.on[r.anchor()]++
	if r.doubt {
		u.doubts++
	}
	if r.state == claimed {
		return
	}
	u.settled++
	if u.oldest == nil || older(r, u.oldest) {
		u.oldest = r
	}
	if r.brought != split.NoSlot && (u.bringer == nil || older(r, u.bringer)) {
		u.bringer = r
	}
}

func (s *seat) leave(r *record) {
	u := s.many
	if u == nil {
		return
	}
	delete(u.pods, r.uid)
	u.on[r.anchor()]--
	if r.doubt {
		u.doubts--
	}
	if r.state != claimed {
		u.settled--
	}
	if u.oldest == r {
		u.oldest = u.first(func(*record) bool { return true })
	}
	if u.bringer == r {
		u.bringer = u.first(func(o *record) bool { return o.brought != split.NoSlot })
	}
}

// first returns the oldest settled pod that is suitable, nil for none.
func (u *unit) first(suits func(*record) bool) (first *record) {
	for _, r := range u.pods {
		if r.state != claimed && suits(r) && (first == nil || older(r, first)) {
			first = r
		}
	}
	return first
}

func (s *seat) update() {
	switch {
	case s.many == nil:
		s.On = s.one.on
	case s.many.oldest != nil:
		s.Created = s.many.oldest.created
		s.On, _ = s.runsOn(nil)
	}
}

// empty reports whether the last pod has left.
func (s *seat) empty() bool { return s.many == nil || len(s.many.pods) == 0 }

// runsOn returns the type that the pods of a unit run on, without one of them, nil for none; ok is false if they run on none, or
// on more than one. Of these, a unit counts as one on spot: it would be missing from minOnDemand when spot nodes go.
func (s *seat) runsOn(without *record) (t capacity.Type, ok bool) {
	if s.many == nil {
		return capacity.Unknown, false
	}
	on := s.many.on
	if without != nil {
		on[without.anchor()]--
	}
	switch {
	case on[capacity.Spot] > 0:
		return capacity.Spot, on[capacity.OnDemand] == 0
	case on[capacity.OnDemand] > 0:
		return capacity.OnDemand, true
	}
	return capacity.Unknown, false
}

// anchor is the type that a pod holds its unit to: that of its node, the one that it is limited to, or the one that it may turn out
// to have.
func (r *record) anchor() capacity.Type {
	switch {
	case r.state == claimed:
		return r.leans
	case r.on != capacity.Unknown:
		return r.on
	case r.was != capacity.Unknown: // the node is gone
		return r.was
	}
	return r.limited // the node is new
}

// change changes what a seat depends on of one of its pods, and refits the seat.
func (r *record) change(what func()) {
	s := r.seat
	before := s.Pod
	s.leave(r)
	what()
	switch {
	case r.state == claimed:
		r.was = capacity.Unknown
	case r.on != capacity.Unknown:
		r.was = r.on
	}
	s.join(r)
	s.update()
	if s.unassigned && s.Pod != before {
		r.group.outdated = true
	}
}

// slot is the slot of a seat, also of an unassigned one.
func (g *group) slotOf(s *seat) int {
	if !s.unassigned {
		return s.Slot
	}
	g.reassign()
	return int(s.assignment)
}

// typeFor is the type on which one of the pods of a seat has to run: that of the slot, unless others of its unit run on the other
// one. They are not moved, and a unit is never on both. fixed is set where others of the unit determine it.
func (g *group) typeFor(s *seat, r *record) (t capacity.Type, fixed bool) {
	if t, fixed = s.runsOn(r); fixed {
		return t, true
	}
	return g.mix.TypeOf(g.slotOf(s)), false
}

// refit gives a seat the slot that its oldest settled pod brings. A seat without settled pods keeps what it claimed.
func (g *group) refit(s *seat) {
	switch slot := s.brought(); {
	case s.identity:
	case !s.settled():
		if s.unassigned || s.Slot != split.NoSlot && g.successor(s.Slot) != nil {
			g.release(s) // another one was bound with the same slot meanwhile
		}
	case slot == split.NoSlot:
		if !s.unassigned || s.Slot != split.NoSlot {
			g.release(s)
			g.float(s, split.NoSlot)
		}
	case s.Slot != slot, g.changesRank(s): // otherwise it holds the slot, or waits for it, already
		g.release(s)
		g.assign(s, slot)
	}
}

// changesRank reports whether a unit is older or younger by now, so that it has a right to the slot that it waits for, or another
// one to the slot that it holds: of those that bring a slot, the oldest has it.
func (g *group) changesRank(s *seat) bool {
	if s.many == nil {
		return false
	}
	if holder := g.holders[s.Slot]; s.unassigned {
		return holder == nil || split.Older(s.Pod, holder.Pod) < 0
	}
	successor := g.successor(s.Slot)
	return successor != nil && split.Older(successor.Pod, s.Pod) < 0
}

// seatOf returns the seat of a unit, nil if it has none.
func (g *group) seatOf(unit string) *seat {
	if unit == "" {
		return nil
	}
	return g.units[unit]
}

// members returns the pods of a seat, of which r is one, the oldest first.
func (s *seat) members(r *record) []*record {
	if s.many == nil {
		return []*record{r}
	}
	return slices.SortedFunc(maps.Values(s.many.pods), func(a, b *record) int {
		return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.uid, b.uid))
	})
}

// waitingIn returns the pods of a seat that wait to be bound.
func (s *seat) waitingIn(r *record) (all []*record) {
	for _, o := range s.members(r) {
		if o.state == claimed && o.pending != nil {
			all = append(all, o)
		}
	}
	return all
}

// small is a slot as it is kept.
func small(slot int) int32 { return int32(slot) } //nolint:gosec // a slot is at most MaxSlot, or the number of pods
