// SPDX-License-Identifier: Apache-2.0

// Package judge has a validator for each promise: a pure function of the history of a run.
package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/robustness/history"
)

// Verdict is what a validator found. A verdict on no facts is no verdict.
type Verdict struct {
	Promise    string
	Facts      int
	Violations []string
}

// String is a line of a report.
func (v *Verdict) String() string {
	return fmt.Sprintf("%s: %d facts, %d violations\n%s", v.Promise, v.Facts, len(v.Violations), strings.Join(v.Violations, "\n"))
}

func (v *Verdict) violated(c *history.Change, format string, args ...any) {
	v.Violations = append(v.Violations, fmt.Sprintf("revision %d: ", c.Revision)+fmt.Sprintf(format, args...))
}

// requested notes a violation by a request.
func (v *Verdict) requested(r *history.Request, format string, args ...any) {
	v.Violations = append(v.Violations, fmt.Sprintf("%s: %s %s %s %s/%s: ", r.At.UTC().Format("15:04:05.000"), r.Replica, r.Verb,
		r.Resource, r.Namespace, r.Name)+fmt.Sprintf(format, args...))
}

// Validators are those of all promises that a history can be judged by.
var Validators = []func(*history.History) *Verdict{
	BoundOnce, NoOvercommit, OneSlotOnePod, PlacedByItsSlot, WholeUnits, NoCapture,
	FloorKept, OneMoveAtATime, BudgetsKept, TowardsTheMix, BetterPlace, EvictedIsBack, NothingInTheGrace, QuietAtRest,
	NothingWaits, RecordsKept,
	OneLeaderWrites, NothingForbidden,
}

// terminal reports whether the containers of a pod have ended for good. It holds no capacity.
func terminal(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// BoundOnce judges I1: a pod is bound at most once. Its node never changes, and at most one Binding of it succeeds.
func BoundOnce(h *history.History) *Verdict {
	v := &Verdict{Promise: "I1, a pod is bound at most once"}
	nodes := map[types.UID]string{}
	for i := range h.Changes {
		c := &h.Changes[i]
		if c.Pod == nil {
			continue
		}
		before, bound := nodes[c.Pod.UID]
		switch now := c.Pod.Spec.NodeName; {
		case !bound && now != "":
			nodes[c.Pod.UID] = now
			v.Facts++
		case bound && now != before:
			v.violated(c, "pod %s was on node %s and is on node %q", c.Key, before, now)
		}
	}
	bindings := map[string]bool{}
	for i := range h.Requests {
		r := &h.Requests[i]
		if r.Resource != "pods/binding" || !r.OK() || r.UID == "" {
			continue
		}
		if bindings[r.UID] {
			v.requested(r, "a second Binding of the pod succeeded")
		}
		bindings[r.UID] = true
	}
	return v
}

// NoOvercommit judges I2: no binding of Berth's scheduler has the pods of a node request more than the node has. What a rival scheduler
// has just bound does not count: Berth's may not have seen it.
func NoOvercommit(h *history.History) *Verdict {
	v := &Verdict{Promise: "I2, no binding overcommits a node"}
	w, bound := newWorld(), map[types.UID]time.Time{}
	for i := range h.Changes {
		c := &h.Changes[i]
		before := w.pods[c.Key]
		w.apply(c)
		if c.Pod == nil || before != nil && before.UID == c.Pod.UID && before.Spec.NodeName != "" {
			continue // it is gone, or was bound before
		}
		node := w.nodes[c.Pod.Spec.NodeName]
		if node == nil {
			continue // it has none, or the node has just left
		}
		if bound[c.Pod.UID] = c.At; rivals(c.Pod) {
			continue
		}
		v.Facts++
		unseen := func(p *corev1.Pod) bool { return rivals(p) && c.At.Sub(bound[p.UID]) < view }
		if over := overcommitted(node, slices.DeleteFunc(slices.Collect(maps.Values(w.pods)), unseen)); over != "" {
			v.violated(c, "pod %s overcommits node %s: %s", c.Key, node.Name, over)
		}
	}
	return v
}

// rivals reports whether a pod is one of the default scheduler.
func rivals(p *corev1.Pod) bool { return p.Spec.SchedulerName == corev1.DefaultSchedulerName }

// overcommitted is what the pods of a node request too much of, "" for nothing.
func overcommitted(node *corev1.Node, pods []*corev1.Pod) string {
	sum := corev1.ResourceList{}
	n := int64(0)
	for _, p := range pods {
		if p.Spec.NodeName != node.Name || terminal(p) {
			continue
		}
		n++
		for name, q := range requests(p) {
			total := sum[name]
			total.Add(q)
			sum[name] = total
		}
	}
	var over []string
	if most := node.Status.Allocatable.Pods(); n > most.Value() {
		over = append(over, fmt.Sprintf("%d of %s pods", n, most))
	}
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		requested, most := sum[name], node.Status.Allocatable[name]
		if requested.Cmp(most) > 0 {
			over = append(over, fmt.Sprintf("%s of %s %s", &requested, &most, name))
		}
	}
	return strings.Join(over, ", ")
}

// slot is a slot of a group.
type slot struct{ group, text string }

// OneSlotOnePod judges the promise of the ledger: no two pods of a group that are not going to end hold the same slot, unless they are of
// one unit.
func OneSlotOnePod(h *history.History) *Verdict {
	v := &Verdict{Promise: "no two live pods hold one slot"}
	units := map[string]string{}
	held := map[string]slot{}
	holders := map[slot]map[string]bool{}
	release := func(key string) {
		if s, holds := held[key]; holds {
			delete(holders[s], key)
			delete(held, key)
		}
	}
	for i := range h.Changes {
		c := &h.Changes[i]
		before, had := held[c.Key]
		release(c.Key)
		if c.Pod == nil || !live(c.Pod) {
			continue
		}
		owner := metav1.GetControllerOf(c.Pod)
		text := c.Pod.Annotations[v1alpha1.SlotAnnotation]
		if owner == nil || text == "" {
			continue
		}
		s := slot{groupOf(c.Pod), text}
		units[c.Key] = c.Pod.Labels[UnitLabel]
		if holders[s] == nil {
			holders[s] = map[string]bool{}
		}
		held[c.Key] = s
		holders[s][c.Key] = true
		if had && before == s {
			continue // judged when it took the slot
		}
		v.Facts++
		if others := holders[s]; len(others) > 1 && !oneUnit(units, others) {
			v.violated(c, "slot %s of %s %s is held by %v", text, owner.Kind, owner.Name, slices.Sorted(maps.Keys(holders[s])))
		}
	}
	return v
}

// oneUnit reports whether pods are of one unit.
func oneUnit(units map[string]string, keys map[string]bool) bool {
	first := ""
	for key := range keys {
		unit := units[key]
		if unit == "" || first != "" && unit != first {
			return false
		}
		first = unit
	}
	return true
}
