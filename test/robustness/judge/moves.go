// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/test/robustness/history"
)

// move is a pod that the controller took away.
type move struct {
	request *history.Request
	// pod is as it was just before, which is at the index commit of the changes.
	pod    *corev1.Pod
	commit int
}

// moves are those of a history, by time: what the controller evicted or deleted, with success.
func moves(h *history.History) (list []move) {
	for i := range h.Requests {
		r := &h.Requests[i]
		evicts, deletes := r.Verb == "create" && r.Resource == "pods/eviction", r.Verb == "delete" && r.Resource == "pods"
		if r.Program != history.Controller || !r.OK() || !evicts && !deletes {
			continue
		}
		if m, ok := taken(h, r); ok {
			list = append(list, m)
		}
	}
	return list
}

// taken finds the pod of a request: the one of the name that first begins to end, or is gone, after it.
func taken(h *history.History, r *history.Request) (move, bool) {
	key := history.Pods + r.Namespace + "/" + r.Name
	var before *corev1.Pod
	for i := range h.Changes {
		c := &h.Changes[i]
		if c.Key != key {
			continue
		}
		if before != nil && live(before) && (c.Pod == nil || c.Pod.DeletionTimestamp != nil) && !c.At.Before(r.At) {
			return move{request: r, pod: before, commit: i}, true
		}
		before = c.Pod
	}
	return move{}, false
}

// since is the probe of the time in which the controller can have seen what it decided by. Without the pod there was nothing to decide.
func (m *move) since(h *history.History, observe func(*world)) probe {
	return probe{from: at(h, m.request.At.Add(-view)), to: m.commit, observe: func(w *world) {
		if p := w.pods[podKey(m.pod)]; p != nil && p.UID == m.pod.UID {
			observe(w)
		}
	}}
}

// FloorKept judges I4: no move leaves fewer Ready replicas on on-demand than minOnDemand requires.
func FloorKept(h *history.History) *Verdict {
	v := &Verdict{Promise: "I4, no move breaks the on-demand floor"}
	all := moves(h)
	probes := make([]probe, len(all))
	most, least := make([]int, len(all)), make([]int, len(all))
	for i := range all {
		m := &all[i]
		most[i], least[i] = -1, math.MaxInt
		probes[i] = m.since(h, func(w *world) {
			n, there := 0, 0
			w.siblings(m.pod, func(p *corev1.Pod) {
				there++
				if p.UID != m.pod.UID && ready(p) && w.typeOf(p.Spec.NodeName) == capacity.OnDemand {
					n++
				}
			})
			if w.typeOf(m.pod.Spec.NodeName) != capacity.OnDemand {
				n = math.MaxInt // it is none of those that count
			}
			most[i] = max(most[i], n)
			if mix, governed := w.mixOf(m.pod); governed {
				least[i] = min(least[i], int(mix.MinOnDemand), there)
			}
		})
	}
	replay(h, probes)
	for i := range all {
		if v.Facts++; least[i] != math.MaxInt && most[i] < least[i] {
			v.requested(all[i].request, "%d Ready replicas stayed on on-demand, and %d must", most[i], least[i])
		}
	}
	return v
}

// settled reports whether a pod is on a node that stays.
func (w *world) settled(p *corev1.Pod) bool { return takesPods(w.nodes[p.Spec.NodeName]) }

// OneMoveAtATime judges I5: a replica moves only while all others of its workload are there and Ready, and the next one only after the
// workload was complete again, or the move has failed.
func OneMoveAtATime(h *history.History) *Verdict {
	v := &Verdict{Promise: "I5, one replica of a workload moves at a time"}
	all := moves(h)
	var probes []probe
	whole, back := make([]bool, len(all)), make([]bool, len(all))
	last := map[string]int{}
	for i := range all {
		m := &all[i]
		probes = append(probes, m.since(h, func(w *world) { whole[i] = whole[i] || w.undisturbed(m.pod) }))
		before, moved := last[groupOf(m.pod)]
		last[groupOf(m.pod)] = i
		if back[i] = !moved || m.request.At.Sub(all[before].request.Done) >= h.MoveTimeout; back[i] {
			continue
		}
		probes = append(probes, probe{from: all[before].commit + 1, to: m.commit, observe: func(w *world) {
			back[i] = back[i] || w.complete(m.pod)
		}})
	}
	replay(h, probes)
	for i := range all {
		switch v.Facts++; {
		case !whole[i]:
			v.requested(all[i].request, "another replica of the workload was missing or not Ready")
		case !back[i]:
			v.requested(all[i].request, "the replacement of the one before was not Ready yet")
		}
	}
	return v
}

// undisturbed reports whether no replica of a pod's workload is missing, and none that runs is not Ready.
func (w *world) undisturbed(p *corev1.Pod) bool {
	n, all := 0, true
	w.siblings(p, func(other *corev1.Pod) {
		n++
		all = all && (ready(other) || !w.settled(other))
	})
	o := w.demander(p)
	return all && (o == nil || n >= int(o.Replicas))
}

// complete reports whether as many replicas of a pod's workload as its owner requests are Ready.
func (w *world) complete(p *corev1.Pod) bool {
	n := 0
	w.siblings(p, func(other *corev1.Pod) {
		if ready(other) {
			n++
		}
	})
	o := w.demander(p)
	return o == nil || n >= int(o.Replicas)
}

// BudgetsKept judges I5: the controller takes pods away through the Eviction API only, and only while the disruption budget of the pod
// allows it.
func BudgetsKept(h *history.History) *Verdict {
	v := &Verdict{Promise: "I5, disruption budgets are kept"}
	all := moves(h)
	probes := make([]probe, len(all))
	allowed := make([]bool, len(all))
	for i := range all {
		m := &all[i]
		probes[i] = probe{from: at(h, m.request.At.Add(-time.Second)), to: m.commit, observe: func(w *world) {
			allowed[i] = allowed[i] || w.disruptable(m.pod)
		}}
	}
	replay(h, probes)
	for i := range all {
		switch v.Facts++; {
		case all[i].request.Verb == "delete":
			v.requested(all[i].request, "a pod was deleted, not evicted")
		case !allowed[i]:
			v.requested(all[i].request, "the disruption budget of the pod did not allow it")
		}
	}
	return v
}

// disruptable reports whether every budget that selects a pod allows a disruption.
func (w *world) disruptable(p *corev1.Pod) bool {
	for _, b := range w.budgets {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.Namespace == p.Namespace && selector.Matches(labels.Set(p.Labels)) && b.Status.DisruptionsAllowed < 1 {
			return false
		}
	}
	return true
}

// TowardsTheMix judges I5: only a pod of a type that has more replicas than the mix gives it is moved.
func TowardsTheMix(h *history.History) *Verdict {
	v := &Verdict{Promise: "I5, moves lead to the mix"}
	all := moves(h)
	probes := make([]probe, len(all))
	excess := make([]map[capacity.Type]*excess, len(all))
	for i := range all {
		m := &all[i]
		excess[i] = newExcess()
		probes[i] = m.since(h, func(w *world) { w.measure(m.pod, excess[i]) })
	}
	replay(h, probes)
	for i := range all {
		v.Facts++
		wrong := false
		for _, e := range excess[i] {
			wrong = wrong || e.seen && e.most > e.least
		}
		if !wrong {
			v.requested(all[i].request, "its type had no more replicas than the mix gives it")
		}
	}
	return v
}

// excess is how many replicas a capacity type had at most, and had to have at least, while a pod was on it.
type excess struct {
	seen        bool
	most, least int
}

func newExcess() map[capacity.Type]*excess {
	return map[capacity.Type]*excess{capacity.Spot: {least: math.MaxInt}, capacity.OnDemand: {least: math.MaxInt}}
}

// measure notes how many replicas of a pod's workload are on the type of its node.
func (w *world) measure(p *corev1.Pod, into map[capacity.Type]*excess) {
	e := into[w.typeOf(p.Spec.NodeName)]
	mix, governed := w.mixOf(p)
	if e == nil || !governed {
		return
	}
	e.seen = true
	n, on := 0, 0
	w.siblings(p, func(other *corev1.Pod) {
		n++
		if w.typeOf(other.Spec.NodeName) == w.typeOf(p.Spec.NodeName) {
			on++
		}
	})
	if o := w.demander(p); o != nil {
		n = min(n, int(o.Replicas))
	}
	wanted := mix.Spot(n)
	if w.typeOf(p.Spec.NodeName) == capacity.OnDemand {
		wanted = mix.OnDemand(n)
	}
	e.most, e.least = max(e.most, on), min(e.least, wanted)
}

// BetterPlace judges I5: a pod is moved only where a node of the other type has free capacity for its replacement.
func BetterPlace(h *history.History) *Verdict {
	v := &Verdict{Promise: "I5, no move without a better place"}
	all := moves(h)
	probes := make([]probe, len(all))
	found := make([]bool, len(all))
	for i := range all {
		m := &all[i]
		probes[i] = m.since(h, func(w *world) {
			found[i] = found[i] || w.fits(m.pod, w.typeOf(m.pod.Spec.NodeName).Other())
		})
	}
	replay(h, probes)
	for i := range all {
		if v.Facts++; !found[i] {
			v.requested(all[i].request, "no node of the other type had free capacity")
		}
	}
	return v
}
