// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/test/robustness/history"
)

// longestWait is how long a pod without a mix may wait beside free capacity while there is no fault: a back-off of ten seconds, and as
// long again for what the scheduler reads before the first pod of a workload.
const longestWait = 20 * time.Second

// NothingWaits judges I7: a pod that no mix governs, because there is none, it was removed, or its annotations are invalid, gets a node
// that has free capacity. Only time counts in which there was such a node at every revision, and no fault, nor one shortly before.
func NothingWaits(h *history.History) *Verdict {
	v := &Verdict{Promise: "I7, a pod without a mix does not wait"}
	w := newWorld()
	since, seen, blamed := map[types.UID]time.Time{}, map[types.UID]bool{}, map[types.UID]bool{}
	judge := func(c *history.Change, uid types.UID, until time.Time) {
		if d := longestCalm(h, since[uid], until); d > longestWait && !blamed[uid] {
			blamed[uid] = true
			v.violated(c, "pod %s has no mix, and waited for %s beside free capacity", c.Key, d.Round(time.Millisecond))
		}
	}
	last := map[types.UID]*history.Change{}
	for i := range h.Changes {
		c := &h.Changes[i]
		w.apply(c)
		if c.Pod != nil {
			last[c.Pod.UID] = c
		}
		waits := w.waiting()
		for uid := range since {
			if !waits[uid] {
				judge(last[uid], uid, c.At)
				delete(since, uid)
			}
		}
		for uid := range waits {
			seen[uid] = true
			if _, is := since[uid]; !is {
				since[uid] = c.At
			}
		}
	}
	for uid := range since {
		judge(last[uid], uid, end(h))
	}
	v.Facts = len(seen)
	slices.Sort(v.Violations) // a map has no order
	return v
}

// end is when the last revision was written, or the last step ended.
func end(h *history.History) (t time.Time) {
	for i := range h.Steps {
		t = later(t, h.Steps[i].Ended)
	}
	if n := len(h.Changes); n > 0 {
		t = later(t, h.Changes[n-1].At)
	}
	return t
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// longestCalm is the longest time between two moments in which there was no fault, nor one just before.
func longestCalm(h *history.History, from, to time.Time) (longest time.Duration) {
	faults := slices.DeleteFunc(slices.Clone(h.Steps), func(s history.Step) bool { return !s.Fault })
	slices.SortFunc(faults, func(a, b history.Step) int { return a.Began.Compare(b.Began) })
	for i := range faults {
		if f := &faults[i]; f.Began.Before(to) {
			longest = max(longest, f.Began.Sub(from))
			from = later(from, f.Ended.Add(view))
		}
	}
	return max(longest, to.Sub(from))
}

// waiting are the pods of Berth's scheduler that no mix governs, and that a node has free capacity for.
func (w *world) waiting() map[types.UID]bool {
	all := map[types.UID]bool{}
	for _, p := range w.pods {
		if p.Spec.NodeName != "" || p.Spec.SchedulerName != string(history.Scheduler) || !live(p) || tied(p) {
			continue
		}
		_, governed := w.mixOf(p)
		if !governed && (w.fits(p, capacity.Spot) || w.fits(p, capacity.OnDemand)) {
			all[p.UID] = true
		}
	}
	return all
}

// tied reports whether a pod waits for something other than Berth, or may run on some nodes only.
func tied(p *corev1.Pod) bool {
	others := func(g corev1.PodSchedulingGate) bool { return g.Name != v1alpha1.CapacityMixGate }
	return slices.ContainsFunc(p.Spec.SchedulingGates, others) || p.Spec.NodeSelector != nil || p.Spec.Affinity != nil ||
		slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
}
