// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"cmp"
	"slices"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// assignments puts live pods, sorted by age, on their slots: those that have a node,
// or had their gate removed, as mix.Assign does; the others on the slots where the
// scheduler puts them then.
//
// If there are exactly as many pods as the settled replicas and all of them run, gaps are closed.
func (st *State) assignments(m split.Mix, live []*Pod, settled int) []Assignment {
	bound := make([]split.Pod, 0, len(live))
	var taken split.Slots
	var waiting []*Pod
	o := &st.scratch
	for _, p := range live {
		p.Into(o)
		slot, identity := governing.IdentitySlot(o, controllersOf{st})
		switch {
		case p.Bound(), p.LimitedTo != capacity.Unknown:
			if !identity {
				slot = p.claimed(o)
			}
			on := p.LimitedTo
			if p.Bound() {
				on = st.typeOf(p.Node)
			}
			bound = append(bound, split.Pod{ID: string(p.UID), Created: p.Created, Slot: slot, On: on})
		case identity:
			bound = append(bound, split.Pod{ID: string(p.UID), Created: p.Created, Slot: slot, On: m.TypeOf(slot)})
		default:
			waiting = append(waiting, p)
		}
	}
	assignments := make([]Assignment, 0, len(live))
	onSlots := split.Assign(m, bound)
	if len(live) == settled && !slices.ContainsFunc(live, func(p *Pod) bool { return !p.Bound() }) {
		m.Close(onSlots, settled)
	}
	for _, s := range onSlots {
		taken.Take(s.Slot)
		i, _ := slices.BinarySearchFunc(live, s.Pod, func(p *Pod, s split.Pod) int {
			return cmp.Or(cmp.Compare(p.Created, s.Created), cmp.Compare(string(p.UID), s.ID))
		})
		assignments = append(assignments, st.assignment(s, live[i]))
	}
	joiner := split.NewJoiner(m, &taken)
	for _, p := range waiting {
		p.Into(o)
		slot := joiner.Join(governing.RemovedInAnyOrder(o))
		t := m.TypeOf(slot)
		assignments = append(assignments, Assignment{
			Pod: p, Place: Pending,
			Assignment: split.Assignment{Wants: t, Pod: split.Pod{ID: string(p.UID), Created: p.Created, Slot: slot, On: t}},
		})
	}
	slices.SortFunc(assignments, func(a, b Assignment) int { return cmp.Compare(a.Slot, b.Slot) })
	return assignments
}

func (st *State) assignment(s split.Assignment, p *Pod) Assignment {
	assignment := Assignment{Assignment: s, Pod: p}
	switch n := st.nodes[p.Node]; {
	case !p.Bound():
		if assignment.Place = Pending; p.LimitedTo != capacity.Unknown {
			return assignment // it is limited to a type, which is not its slot's after a fallback
		}
	case n != nil && n.Departing != "":
		assignment.Place = Departing
	default:
		return assignment
	}
	assignment.On = assignment.Wants
	return assignment
}

func (st *State) typeOf(node string) capacity.Type {
	if n := st.nodes[node]; n != nil {
		return n.Type
	}
	return capacity.Unknown
}

// slotsOf returns the slots that live pods hold which are not among the governed ones.
func (st *State) slotsOf(live, governed []*Pod) (slots []int) {
	for _, p := range live {
		if slices.Contains(governed, p) {
			continue
		}
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
