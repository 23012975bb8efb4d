// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/test/robustness/history"
)

// assignment is the revision at which a pod got its slot, or its node.
type assignment struct {
	change *history.Change
	index  int
	slot   int
	// got is the type that the pod was given: that of its slot or, where onNode is set, that of its node.
	onNode bool
	kept   bool
}

// assignments are those of a history.
func assignments(h *history.History) (list []assignment) {
	before := map[string]*corev1.Pod{}
	for i := range h.Changes {
		c := &h.Changes[i]
		old := before[c.Key]
		if before[c.Key] = c.Pod; c.Pod == nil || c.Listed {
			continue
		}
		text := c.Pod.Annotations[v1alpha1.SlotAnnotation]
		slot, err := strconv.Atoi(text)
		if err != nil {
			continue
		}
		fresh := old == nil || old.UID != c.Pod.UID
		if fresh || old.Annotations[v1alpha1.SlotAnnotation] == "" {
			list = append(list, assignment{change: c, index: i, slot: slot})
		}
		if c.Pod.Spec.NodeName != "" && (fresh || old.Spec.NodeName == "") {
			list = append(list, assignment{change: c, index: i, slot: slot, onNode: true})
		}
	}
	return list
}

// PlacedByItsSlot judges I3 and I4 at the moment of placement: a pod gets the type that the mix gives its slot, and a pod of an on-demand
// slot never gets a spot node. What held at a moment that the scheduler can have seen counts.
func PlacedByItsSlot(h *history.History) *Verdict {
	v := &Verdict{Promise: "I3, I4, pods are placed by their slots"}
	all := assignments(h)
	probes := make([]probe, len(all))
	for i := range all {
		a := &all[i]
		probes[i] = probe{from: at(h, a.change.At.Add(-view)), to: a.index, observe: func(w *world) { a.kept = a.kept || w.keeps(a) }}
	}
	replay(h, probes)
	for i := range all {
		a := &all[i]
		v.Facts++
		if a.kept {
			continue
		}
		p := a.change.Pod
		if a.onNode {
			v.violated(a.change, "pod %s of an on-demand slot is bound to node %s", a.change.Key, p.Spec.NodeName)
		} else {
			v.violated(a.change, "slot %d of pod %s is %s, which its mix does not give it", a.slot, a.change.Key,
				p.Annotations[v1alpha1.CapacityTypeAnnotation])
		}
	}
	return v
}

// keeps reports whether an assignment is right in the world as it is.
func (w *world) keeps(a *assignment) bool {
	p := a.change.Pod
	t, _ := capacity.ParseType(p.Annotations[v1alpha1.CapacityTypeAnnotation])
	if a.onNode {
		on := w.typeOf(p.Spec.NodeName)
		unit, runs := w.unitRunsOn(p)
		return t != capacity.OnDemand || on == capacity.OnDemand || p.Labels[UnitLabel] != "" && runs && unit == on
	}
	mix, governed := w.mixOf(p)
	return governed && mix.TypeOf(a.slot) == t
}

// NoCapture judges I6: a pod that no mix governs gets no slot, and is not moved.
func NoCapture(h *history.History) *Verdict {
	v := &Verdict{Promise: "I6, pods without a mix are left alone"}
	governed, slotted, last := map[string]bool{}, map[string]*history.Change{}, map[string]*history.Change{}
	w := newWorld()
	for i := range h.Changes {
		c := &h.Changes[i]
		w.apply(c)
		if c.Pod == nil {
			continue
		}
		uid := string(c.Pod.UID)
		last[uid] = c
		if _, is := w.mixOf(c.Pod); is {
			governed[uid] = true
		}
		if c.Pod.Annotations[v1alpha1.SlotAnnotation] != "" && slotted[uid] == nil {
			slotted[uid] = c
		}
	}
	for uid, c := range last {
		if governed[uid] {
			continue
		}
		if v.Facts++; slotted[uid] != nil {
			v.violated(slotted[uid], "pod %s has no mix, and slot %s", c.Key, slotted[uid].Pod.Annotations[v1alpha1.SlotAnnotation])
		}
	}
	for _, m := range moves(h) {
		if !governed[string(m.pod.UID)] {
			v.requested(m.request, "no mix governs the pod")
		}
	}
	slices.Sort(v.Violations) // a map has no order
	return v
}
