// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
)

// The checks are functions of a picture. They return the differences from the mix.

// differences are sentences about them.
type differences []string

func (d *differences) add(format string, args ...any) { *d = append(*d, fmt.Sprintf(format, args...)) }

// misplaced adds a pod that runs on a node of another type than that of its slot.
func (d *differences) misplaced(app string, p *pod) {
	d.add("%s: slot %d is %s, its pod runs on %s node %s", app, p.slot, p.slotType, p.on, p.node)
}

// exact checks that n pods of a group have the exact split of their mix: every slot from 0 to n-1 is held once, by a
// pod on a node of the slot's type.
func exact(app string, m split.Mix, n int, pods []pod) differences {
	differs := size(app, n, pods)
	c, pending := count(pods)
	if pending > 0 {
		differs.add("%s: %d of %d pods have no node", app, pending, n)
	}
	if c.Spot != m.Spot(n) || c.OnDemand != m.OnDemand(n) || c.Unknown != 0 {
		differs.add("%s: %s instead of %d spot / %d on-demand: mix %s, %d replicas", app, countText(c), m.Spot(n), m.OnDemand(n), m, n)
	}
	differs = append(differs, slotsOnce(app, m, n, pods)...)
	for i := range pods {
		if p := &pods[i]; p.borrows() {
			differs.misplaced(app, p)
		}
	}
	return differs
}

// borrowedOnly checks that n pods hold their slots and differ from their mix only by spot slots that run on on-demand
// nodes. It returns the number of those.
func borrowedOnly(app string, m split.Mix, n int, pods []pod) (borrowing int, differs differences) {
	differs = append(size(app, n, pods), slotsOnce(app, m, n, pods)...)
	for i := range pods {
		switch p := &pods[i]; {
		case !p.bound():
			differs.add("%s: pod %s has no node", app, p.name)
		case p.on == capacity.Unknown:
			differs.add("%s: pod %s runs on %s, whose type is unknown", app, p.name, p.node)
		case p.borrows() && p.slotType == capacity.OnDemand:
			differs.misplaced(app, p)
		case p.borrows():
			borrowing++
		}
	}
	return borrowing, differs
}

// borrowedBecauseFull checks that exactly the pods are borrowed for which spot has no capacity.
func borrowedBecauseFull(borrowing, wanted int, pic picture) []string {
	podCapacity, _ := pic.capacities(capacity.Spot)
	if want := max(0, wanted-podCapacity); borrowing != want {
		return []string{
			fmt.Sprintf("%d pods are borrowed instead of %d: %d spot slots, spot capacity for %d", borrowing, want, wanted, podCapacity),
		}
	}
	return nil
}

// onlyOnDemandWaits checks that of n pods exactly the given on-demand slots have no node, and that all others run on
// the type of their slot.
func onlyOnDemandWaits(app string, m split.Mix, n int, waiting []int, pods []pod) differences {
	differs := append(size(app, n, pods), slotsOnce(app, m, n, pods)...)
	c, pending := count(pods)
	if c.Spot != m.Spot(n) {
		differs.add("%s: %d pods run on spot instead of %d: mix %s, %d replicas", app, c.Spot, m.Spot(n), m, n)
	}
	if pending != len(waiting) {
		differs.add("%s: %d pods are pending instead of %d, of the on-demand slots %s", app, pending, len(waiting), numbers(waiting))
	}
	var reasons strings.Builder
	for i := range pods {
		p := &pods[i]
		if p.borrows() {
			differs.misplaced(app, p)
		}
		reasons.WriteString(p.waits + "\n")
	}
	for _, slot := range waiting {
		if reason := fmt.Sprintf("slot %d needs on-demand", slot); !strings.Contains(reasons.String(), reason) {
			differs.add("%s: no pending pod has the reason %q", app, reason)
		}
	}
	return differs
}

// slotsOf returns the slots of a type from slot a to b-1.
func slotsOf(m split.Mix, t capacity.Type, a, b int) []int {
	var slots []int
	for slot := a; slot < b; slot++ {
		if m.TypeOf(slot) == t {
			slots = append(slots, slot)
		}
	}
	return slots
}

func size(app string, n int, pods []pod) (differs differences) {
	if len(pods) != n {
		differs.add("%s: %d pods instead of %d", app, len(pods), n)
	}
	return differs
}

// slotsOnce checks that the pods hold the slots 0 to n-1, each once, and that the annotation of each pod has the type
// that the mix assigns to its slot.
func slotsOnce(app string, m split.Mix, n int, pods []pod) differences {
	var differs differences
	holder := map[int]string{}
	held := 0
	for i := range pods {
		p := &pods[i]
		if p.slot == split.NoSlot {
			if p.bound() {
				differs.add("%s: pod %s runs without a slot", app, p.name)
			}
			continue
		}
		if other := holder[p.slot]; other != "" {
			differs.add("%s: slot %d is held by %s and %s", app, p.slot, other, p.name)
		}
		holder[p.slot] = p.name
		held++
		if want := m.TypeOf(p.slot); p.slotType != want {
			differs.add("%s: slot %d is annotated as %s instead of %s: mix %s", app, p.slot, p.slotType, want, m)
		}
	}
	if held != n { // reported elsewhere: pods are missing, or have no node
		return differs
	}
	for slot := range n {
		if holder[slot] == "" {
			differs.add("%s: slot %d is not held", app, slot)
		}
	}
	return differs
}

// countText returns a count as text.
func countText(c split.Count) string {
	text := fmt.Sprintf("%d spot / %d on-demand", c.Spot, c.OnDemand)
	if c.Unknown > 0 {
		text += fmt.Sprintf(" / %d of unknown type", c.Unknown)
	}
	return text
}

// numbers returns slots as text: "22, 25 and 28".
func numbers(slots []int) string {
	texts := make([]string, len(slots))
	for i, slot := range slots {
		texts[i] = strconv.Itoa(slot)
	}
	if last := len(texts) - 1; last > 0 {
		return strings.Join(texts[:last], ", ") + " and " + texts[last]
	}
	return strings.Join(texts, "")
}

// results collects the checks of a run.
type results struct {
	passed  int
	differs []string
}

// add counts a check and reports whether it passed.
func (r *results) add(differs []string) bool {
	if len(differs) == 0 {
		r.passed++
		return true
	}
	r.differs = append(r.differs, differs...)
	return false
}
