// SPDX-License-Identifier: Apache-2.0

package judge

import (
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/test/robustness/history"
)

// joining is the revision at which a pod of a unit was bound.
type joining struct {
	change *history.Change
	index  int
	// joined is set where the pod did not split its unit at a moment that the scheduler can have seen.
	joined bool
}

// joinings are those of a history.
func joinings(h *history.History) (list []joining) {
	before := map[string]*corev1.Pod{}
	for i := range h.Changes {
		c := &h.Changes[i]
		old := before[c.Key]
		if before[c.Key] = c.Pod; c.Pod == nil || c.Listed || c.Pod.Labels[UnitLabel] == "" || c.Pod.Spec.NodeName == "" {
			continue
		}
		if old == nil || old.UID != c.Pod.UID || old.Spec.NodeName == "" {
			list = append(list, joining{change: c, index: i})
		}
	}
	return list
}

// WholeUnits judges that a unit is on one capacity type: no pod is bound to the other type than the one on which all other pods of its
// unit run. Units are not moved: the controller evicts none of their pods.
func WholeUnits(h *history.History) *Verdict {
	v := &Verdict{Promise: "a unit runs on one capacity type"}
	all := joinings(h)
	probes := make([]probe, len(all))
	for i := range all {
		j := &all[i]
		probes[i] = probe{from: at(h, j.change.At.Add(-view)), to: j.index, observe: func(w *world) {
			_, governed := w.mixOf(j.change.Pod)
			t, known := w.unitRunsOn(j.change.Pod)
			on := w.typeOf(j.change.Pod.Spec.NodeName)
			j.joined = j.joined || !governed || !known || on == t || on == capacity.Unknown
		}}
	}
	replay(h, probes)
	for i := range all {
		if v.Facts++; !all[i].joined {
			p := all[i].change.Pod
			v.violated(all[i].change, "pod %s is bound to node %s, and all others of unit %s run on the other type", all[i].change.Key,
				p.Spec.NodeName, p.Labels[UnitLabel])
		}
	}
	for _, m := range moves(h) {
		if m.pod.Labels[UnitLabel] != "" {
			v.requested(m.request, "a pod of a unit was moved alone")
		}
	}
	return v
}

// unitRunsOn returns the type that all other bound pods of a pod's unit run on; known is false if there are none, or of both types.
func (w *world) unitRunsOn(p *corev1.Pod) (t capacity.Type, known bool) {
	both := false
	w.siblings(p, func(other *corev1.Pod) {
		if other.UID == p.UID || other.Labels[UnitLabel] != p.Labels[UnitLabel] || other.Spec.NodeName == "" {
			return
		}
		on := w.typeOf(other.Spec.NodeName)
		both = both || known && on != t || on == capacity.Unknown
		t, known = on, true
	})
	return t, known && !both
}
