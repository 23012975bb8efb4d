// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
)

// The checks are functions of a picture. They return what differs from the mix,
// nothing if nothing does.

// exact demands that n pods of a group have the exact split of their mix: every
// slot from 0 to n-1 held once, by a pod on a node of the slot's type.
func exact(app string, m split.Mix, n int, pods []pod) []string {
	differs := size(app, n, pods)
	c, pending := count(pods)
	if pending > 0 {
		differs = append(differs, fmt.Sprintf("%s: %d of %d pods have no node", app, pending, n))
	}
	if c.Spot != m.Spot(n) || c.OnDemand != m.OnDemand(n) || c.Unknown != 0 {
		differs = append(differs, fmt.Sprintf("%s: %s run, the mix (%s) says %d spot / %d on-demand for %d replicas",
			app, countText(c), m, m.Spot(n), m.OnDemand(n), n))
	}
	differs = append(differs, slotsOnce(app, m, n, pods)...)
	for i := range pods {
		if p := &pods[i]; p.borrows() {
			differs = append(differs, fmt.Sprintf("%s: slot %d is %s, its pod runs on %s node %s", app, p.slot, p.wants, p.on, p.node))
		}
	}
	return differs
}

// borrowedOnly demands that n pods hold their slots and differ from their mix
// only by spot slots that run on on-demand nodes. It returns how many do.
func borrowedOnly(app string, m split.Mix, n int, pods []pod) (borrowing int, differs []string) {
	differs = append(size(app, n, pods), slotsOnce(app, m, n, pods)...)
	for i := range pods {
		switch p := &pods[i]; {
		case !p.bound():
			differs = append(differs, fmt.Sprintf("%s: pod %s has no node", app, p.name))
		case p.on == capacity.Unknown:
			differs = append(differs, fmt.Sprintf("%s: pod %s runs on %s, whose type is not known", app, p.name, p.node))
		case p.borrows() && p.wants == capacity.OnDemand:
			differs = append(differs, fmt.Sprintf("%s: slot %d is on-demand, its pod runs on %s node %s", app, p.slot, p.on, p.node))
		case p.borrows():
			borrowing++
		}
	}
	return borrowing, differs
}

// borrowedBecauseFull demands that exactly as many pods borrow as spot has no room for.
func borrowedBecauseFull(borrowing, wanted int, pic picture) []string {
	room, _ := pic.rooms(capacity.Spot)
	if want := max(0, wanted-room); borrowing != want {
		return []string{fmt.Sprintf("%d pods borrow on-demand; %d spot slots and spot room for %d make it %d", borrowing, wanted, room, want)}
	}
	return nil
}

// onlyOnDemandWaits demands that of n pods exactly the given on-demand slots
// have no node, and that all others run on the type of their slot.
func onlyOnDemandWaits(app string, m split.Mix, n int, waiting []int, pods []pod) []string {
	differs := append(size(app, n, pods), slotsOnce(app, m, n, pods)...)
	c, pending := count(pods)
	if c.Spot != m.Spot(n) {
		differs = append(differs, fmt.Sprintf("%s: %d pods run on spot, the mix (%s) says %d for %d replicas", app, c.Spot, m, m.Spot(n), n))
	}
	if pending != len(waiting) {
		differs = append(differs, fmt.Sprintf("%s: %d pods wait, not the %d of the on-demand slots %s", app, pending, len(waiting), numbers(waiting)))
	}
	var says strings.Builder
	for i := range pods {
		p := &pods[i]
		if p.borrows() {
			differs = append(differs, fmt.Sprintf("%s: slot %d is %s, its pod runs on %s node %s", app, p.slot, p.wants, p.on, p.node))
		}
		says.WriteString(p.waits + "\n")
	}
	for _, slot := range waiting {
		if reason := fmt.Sprintf("slot %d needs on-demand", slot); !strings.Contains(says.String(), reason) {
			differs = append(differs, fmt.Sprintf("%s: no pod that waits says %q", app, reason))
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

func size(app string, n int, pods []pod) []string {
	if len(pods) == n {
		return nil
	}
	return []string{fmt.Sprintf("%s: %d pods instead of %d", app, len(pods), n)}
}

// slotsOnce demands that the pods hold the slots 0 to n-1, each once, and that
// each pod's annotation gives its slot the type that the mix gives it.
func slotsOnce(app string, m split.Mix, n int, pods []pod) []string {
	var differs []string
	holder := map[int]string{}
	held := 0
	for i := range pods {
		p := &pods[i]
		if p.slot == split.NoSlot {
			if p.bound() {
				differs = append(differs, fmt.Sprintf("%s: pod %s runs without a slot", app, p.name))
			}
			continue
		}
		if other := holder[p.slot]; other != "" {
			differs = append(differs, fmt.Sprintf("%s: slot %d is held by %s and %s", app, p.slot, other, p.name))
		}
		holder[p.slot] = p.name
		held++
		if want := m.TypeOf(p.slot); p.wants != want {
			differs = append(differs, fmt.Sprintf("%s: slot %d is marked %s, the mix (%s) makes it %s", app, p.slot, p.wants, m, want))
		}
	}
	if held != n { // said elsewhere: pods are missing, or have no node
		return differs
	}
	for slot := range n {
		if holder[slot] == "" {
			differs = append(differs, fmt.Sprintf("%s: slot %d is not held", app, slot))
		}
	}
	return differs
}

// countText is a count as people read it.
func countText(c split.Count) string {
	text := fmt.Sprintf("%d spot / %d on-demand", c.Spot, c.OnDemand)
	if c.Unknown > 0 {
		text += fmt.Sprintf(" / %d of unknown type", c.Unknown)
	}
	return text
}

// numbers lists slots: "22, 25 and 28".
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
