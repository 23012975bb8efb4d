// SPDX-License-Identifier: Apache-2.0

package status

import (
	"sync"
	"time"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

const (
	// costWindow is the time in which a number of deletion costs is restored.
	costWindow = time.Minute
	// costsLate is how long a deletion cost has to be wrong for the status to report it. Karpenter writes each minute, and a condition
	// that followed it would be written twice a minute.
	costsLate = time.Minute
)

// costRate bounds how many deletion costs are restored in a minute. Each namespace that needs some has an equal share of them, and what
// the others do not need. What one needed in the minute before is kept for it. Safe for concurrent use.
type costRate struct {
	mu          sync.Mutex // guards what follows
	perMinute   int
	began       time.Time
	spent       int
	now, before map[string]need
}

// need is how many costs of a namespace were restored in a minute, and whether it needed more.
type need struct {
	taken int
	more  bool
}

func newCostRate(perMinute int) *costRate {
	return &costRate{perMinute: perMinute, now: map[string]need{}, before: map[string]need{}}
}

func (c *costRate) set(perMinute int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.perMinute = perMinute
}

// allow takes the right to restore one cost in a namespace, or returns when it may be tried again.
func (c *costRate) allow(namespace string, now time.Time) (ok bool, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn(now)
	mine := c.now[namespace]
	if ok = c.spent+c.keptFrom(namespace) < c.perMinute; ok {
		mine.taken++
		c.spent++
	} else {
		mine.more = true
	}
	c.now[namespace] = mine
	return ok, c.began.Add(costWindow)
}

// turn begins another minute. c.mu is held.
func (c *costRate) turn(now time.Time) {
	age := now.Sub(c.began)
	if age < costWindow {
		return
	}
	c.before, c.now, c.began, c.spent = c.now, map[string]need{}, now, 0
	if age >= 2*costWindow {
		c.before = map[string]need{}
	}
}

// keptFrom is how many costs are kept for other namespaces once this one has its share. c.mu is held.
func (c *costRate) keptFrom(namespace string) (kept int) {
	all := map[string]bool{namespace: true}
	for name := range c.now {
		all[name] = true
	}
	for name := range c.before {
		all[name] = true
	}
	share := max(1, c.perMinute/len(all))
	if c.now[namespace].taken < share {
		return 0
	}
	for name := range all {
		if name == namespace {
			continue
		}
		is, was := c.now[name], c.before[name]
		needs := min(share, was.taken)
		if is.more || was.more {
			needs = share
		}
		kept += max(0, needs-is.taken)
	}
	return kept
}

// restoresCost reports whether annotations to be written are the deletion cost only, which another client has overwritten or removed.
func restoresCost(want map[string]string) bool {
	cost, is := want[v1alpha1.PodDeletionCostAnnotation]
	return is && len(want) == 1 && cost != noCost
}

// mayRepair takes the right to repair a pod, or returns how long the repair waits. Restored costs have a rate of their own: a client that
// overwrites them does not delay other repairs and exchanges.
func (r *Controller) mayRepair(namespace string, want map[string]string, now time.Time) (ok bool, wait time.Duration) {
	if !restoresCost(want) {
		return r.repairs.Allow(), soon
	}
	ok, next := r.costs.allow(namespace, now)
	return ok, next.Sub(now)
}

// observe notes which deletion costs of a workload are wrong, and reports whether a pod has annotations to be repaired.
func (r *Controller) observe(g *clusterstate.Group) (anyStale bool) {
	now := r.Clock.Now()
	for i := range g.Assignments {
		s := &g.Assignments[i]
		for _, p := range s.Members() {
			want := r.stale(g, s, p)
			_, wrong := want[v1alpha1.PodDeletionCostAnnotation]
			r.contest.shows(p.UID, !wrong && !overwrittenUnder(g, p), now)
			anyStale = anyStale || len(want) > 0
		}
	}
	return anyStale
}

// overwrittenUnder reports whether another client has overwritten the deletion cost of a pod, and its mix does not leave the costs to it.
func overwrittenUnder(g *clusterstate.Group, p *clusterstate.Pod) bool {
	return !g.Governing.RespectCosts && p.CostOverwritten()
}

// costsWrong reports whether a workload has deletion costs that are to be restored.
func (r *Controller) costsWrong(g *clusterstate.Group) bool {
	for i := range g.Assignments {
		s := &g.Assignments[i]
		for _, p := range s.Members() {
			if overwrittenUnder(g, p) || restoresCost(r.stale(g, s, p)) {
				return true
			}
		}
	}
	return false
}

// lateCosts returns the workloads with overwritten deletion costs that are not restored for costsLate, and when the next one is such a
// workload; 0 if none is about to be. Without repairs, every overwritten cost is late.
func (r *Controller) lateCosts(mine []rebalance.Entry, now time.Time) (late map[governing.GroupKey]bool, next time.Duration) {
	late = map[governing.GroupKey]bool{}
	for i := range mine {
		g := &mine[i].Group
		since := r.overwrittenSince(g, now)
		switch wait := since.Add(costsLate).Sub(now); {
		case since.IsZero():
		case wait <= 0, r.repairs.Limit() == 0:
			late[g.Key] = true
		default:
			next = workloads.Earliest(next, wait)
		}
	}
	return late, next
}

// overwrittenSince returns since when one deletion cost of a workload is overwritten; zero if none is.
func (r *Controller) overwrittenSince(g *clusterstate.Group, now time.Time) (first time.Time) {
	for i := range g.Assignments {
		for _, p := range g.Assignments[i].Members() {
			if !overwrittenUnder(g, p) {
				continue
			}
			since := r.contest.wrongSince(p.UID)
			if since.IsZero() {
				since = now
			}
			if first.IsZero() || since.Before(first) {
				first = since
			}
		}
	}
	return first
}
