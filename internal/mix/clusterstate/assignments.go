// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"cmp"
	"slices"
	"sort"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// seat is what holds a slot: a pod, or a unit of pods.
type seat struct {
	split.Pod
	// oldest is the oldest pod, and pods are all of a unit, the oldest first, nil for a pod alone.
	oldest *Pod
	pods   []*Pod
	unit   string
	// slot is the one that follows from identity, NoSlot for none.
	slot     int
	anyOrder bool
	// settled is set where the node or the type of a pod is given.
	settled bool
}

// seatsOf returns the seats of the pods of a group, in the order of their oldest pods. They are valid until the next call; st.mu is
// locked to write.
func (st *State) seatsOf(m *governing.Mix, live []*Pod) []seat {
	seats := slices.Grow(st.seats[:0], len(live))
	var units map[string]int
	var member governing.Member
	for i, p := range live {
		if i == 0 || !sameMember(live[i-1], p) {
			p.Into(&st.scratch)
			member, _ = st.resolver.Member(&st.scratch, m)
		}
		if of, there := units[member.Unit]; there {
			s := &seats[of]
			if s.pods == nil {
				s.pods = []*Pod{s.oldest}
			}
			s.pods = append(s.pods, p)
			continue
		}
		s := seat{
			Pod: split.Pod{ID: string(p.UID), Created: p.Created}, oldest: p, unit: member.Unit, slot: member.Slot,
			anyOrder: member.AnyOrder,
		}
		if s.unit != "" {
			if units == nil {
				units = map[string]int{}
			}
			s.ID, units[s.unit] = "unit/"+s.unit, len(seats)
		}
		seats = append(seats, s)
	}
	for i := range seats {
		st.settle(m, &seats[i])
	}
	st.seats = seats
	return seats
}

// sameMember reports whether two pods are the same in their groups for certain, but for who they are. The pods of a StatefulSet have
// slots of their names.
func sameMember(a, b *Pod) bool {
	return sameMix(a, b) && (a.Owner == nil || a.Owner.Kind != "StatefulSet")
}

// settle determines the slot that the pods of a seat bring, and the type that they run on, as the ledger of the scheduler does.
func (st *State) settle(m *governing.Mix, s *seat) {
	var on [3]int
	s.Slot = split.NoSlot
	if s.pods == nil {
		st.count(s, s.oldest, &on)
	}
	for _, p := range s.pods {
		st.count(s, p, &on)
	}
	if s.slot != split.NoSlot {
		s.Slot = s.slot
	}
	switch {
	case on[capacity.Spot] > 0:
		s.On = capacity.Spot
	case on[capacity.OnDemand] > 0:
		s.On = capacity.OnDemand
	case !s.settled && s.slot != split.NoSlot:
		s.On = m.Mix.TypeOf(s.slot)
	}
}

// count adds what the node, the type and the slot of a pod are to its seat.
func (st *State) count(s *seat, p *Pod, on *[3]int) {
	t := p.LimitedTo
	if p.Bound() {
		t = st.typeOf(p.Node)
	} else if t == capacity.Unknown {
		return
	}
	if on[t]++; !s.settled {
		s.settled, s.Created = true, p.Created
	}
	if s.Slot == split.NoSlot && s.slot == split.NoSlot {
		p.Into(&st.scratch)
		s.Slot = p.claimed(&st.scratch)
	}
}

// assignments puts the seats of a group on their slots: those with a pod that has a node, or had its gate removed, as mix.Assign does;
// the others on the slots where the scheduler puts them then.
//
// If there are exactly as many seats as the settled replicas and all pods run, gaps are closed.
func (st *State) assignments(m split.Mix, seats []seat, units bool, settled int) []Assignment {
	bound := make([]split.Pod, 0, len(seats))
	var taken split.Slots
	waiting, pending := 0, false
	for i := range seats {
		if s := &seats[i]; s.settled || s.slot != split.NoSlot {
			bound = append(bound, s.Pod)
		} else {
			waiting++
		}
		pending = pending || seats[i].waits()
	}
	assignments := make([]Assignment, 0, len(seats))
	onSlots := split.Assign(m, bound)
	if len(seats) == settled && !pending {
		m.Close(onSlots, settled)
	}
	find := finder(seats, units)
	for _, s := range onSlots {
		taken.Take(s.Slot)
		assignments = append(assignments, st.assignment(s, &seats[find(s.Pod)]))
	}
	if waiting == 0 {
		return assignments
	}
	joiner := split.NewJoiner(m, &taken)
	for i := range seats {
		if s := &seats[i]; !s.settled && s.slot == split.NoSlot {
			s.Slot = joiner.Join(s.anyOrder)
			s.On = m.TypeOf(s.Slot)
			assignments = append(assignments, st.assignment(split.Assignment{Pod: s.Pod, Wants: s.On}, s))
		}
	}
	slices.SortFunc(assignments, func(a, b Assignment) int { return cmp.Compare(a.Slot, b.Slot) })
	return assignments
}

// waits reports whether a pod of a seat has no node.
func (s *seat) waits() bool {
	return !s.oldest.Bound() || slices.ContainsFunc(s.pods, func(p *Pod) bool { return !p.Bound() })
}

// finder returns a function that finds the seat of an assigned pod. Seats of single pods are sorted by age.
func finder(seats []seat, units bool) func(split.Pod) int {
	if !units {
		return func(p split.Pod) int {
			return sort.Search(len(seats), func(i int) bool {
				s := &seats[i]
				return s.Created > p.Created || s.Created == p.Created && s.ID >= p.ID
			})
		}
	}
	byID := make(map[string]int, len(seats))
	for i := range seats {
		byID[seats[i].ID] = i
	}
	return func(p split.Pod) int { return byID[p.ID] }
}

// assignment is a seat on its slot. A unit is where the pods are that are not settled, if there are any.
func (st *State) assignment(s split.Assignment, on *seat) Assignment {
	assignment := Assignment{Assignment: s, Pod: on.oldest, Unit: on.unit, Pods: on.pods}
	if on.unit != "" {
		assignment.unite(on)
	}
	if on.pods == nil {
		if assignment.Place = st.placeOf(on.oldest); assignment.Place == Departing {
			n := st.nodes[on.oldest.Node]
			if assignment.Cause = n.Cause; n.Reclaimed { // whatever it was drained for before
				assignment.Cause = capacity.Interruption
			}
		}
	}
	for _, p := range on.pods {
		switch place := st.placeOf(p); {
		case place == Pending:
			assignment.Place = Pending
		case assignment.Place == Settled:
			assignment.Place = place
		}
	}
	if assignment.Place == Departing || assignment.Place == Pending && !on.settled {
		assignment.On = assignment.Wants // a pod that is limited to a type, or whose unit runs already, is on that type
	}
	return assignment
}

// unite adds what a unit has of its pods.
func (a *Assignment) unite(on *seat) {
	if a.Pods == nil {
		a.Pods = []*Pod{on.oldest}
	}
	set := governing.SetWith(on.oldest.Labels, on.oldest.Owner)
	for _, p := range a.Pods {
		if set.Leads(p.Labels) {
			a.Pod = p
			break
		}
	}
}

func (st *State) placeOf(p *Pod) Place {
	switch n := st.nodes[p.Node]; {
	case !p.Bound():
		return Pending
	case n != nil && n.Departing != "":
		return Departing
	}
	return Settled
}

func (st *State) typeOf(node string) capacity.Type {
	if n := st.nodes[node]; n != nil {
		return n.Type
	}
	return capacity.Unknown
}

// slotsOf returns the slots that some pods of a group hold which its mix does not govern.
func (st *State) slotsOf(others []*Pod) (slots []int) {
	for _, p := range others {
		p.Into(&st.scratch)
		slot, identity := governing.IdentitySlot(&st.scratch, controllersOf{st})
		if !identity {
			slot = p.claimed(&st.scratch)
		}
		if slot != split.NoSlot {
			slots = append(slots, slot)
		}
	}
	return slots
}
