// SPDX-License-Identifier: Apache-2.0

package status

import (
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/domains"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/scalein"
)

const (
	// leastQuiet is how long nothing must have happened to a workload before its replicas exchange slots, at least: an autoscaler that
	// scales it in steps takes its next step before.
	leastQuiet = 30 * time.Second
	// shownWithin is how long the watch may take to show what was written. Repairs of the workload wait so long.
	shownWithin = 10 * time.Second
	// packWindow is the time in which a workload makes at most perReplica exchanges for each replica.
	packWindow = time.Hour
	perReplica = 3
)

// packing is which workloads may exchange slots, and when. Safe for concurrent use.
type packing struct {
	scaleIn *atomic.Value // controller.ScaleIn

	mu *sync.Mutex // guards what follows
	// due are the workloads that changed, by namespace, until they were considered.
	due map[string]map[governing.GroupKey]dueAt
	// written are the exchanges that the watch has not shown yet.
	written map[governing.GroupKey]exchanged
	// spent are the exchanges of the last workloads that made some.
	spent *lru.Cache
}

// dueAt is when a workload is considered. A decision delays it, unless its exchanges have begun, or the workload is as it was: then only
// deletion costs have changed, which Karpenter overwrites each minute.
type dueAt struct {
	at    time.Time
	begun bool
	as    uint64
}

var seed = maphash.MakeSeed()

// stateOf returns the same number for a workload in which at most deletion costs have changed.
func stateOf(e *rebalance.Entry) uint64 {
	type replica struct {
		uid             types.UID
		slot            int
		place           clusterstate.Place
		on              capacity.Type
		node, annotated string
		ready           bool
	}
	type whole struct {
		replicas, terminating, leaving, moves int
		rolling, settled                      bool
		spec                                  rebalance.Version
	}
	var h maphash.Hash
	h.SetSeed(seed)
	g := &e.Group
	maphash.WriteComparable(&h, whole{
		g.Replicas, g.Terminating, len(g.Leaving), len(e.Moves), g.Rollout.Rolling, e.Settled(), e.Spec,
	})
	for i := range g.Assignments {
		s := &g.Assignments[i]
		annotated, _ := s.Pod.Annotation(v1alpha1.SlotAnnotation)
		maphash.WriteComparable(&h, replica{s.Pod.UID, s.Slot, s.Place, s.On, s.Pod.Node, annotated, s.Pod.Ready})
	}
	return h.Sum64()
}

// exchanged are slots that were written, by pod.
type exchanged struct {
	slots map[types.UID]int
	until time.Time
}

// spending is how many exchanges there were since a time.
type spending struct {
	since time.Time
	swaps int
}

func newPacking(s controller.ScaleIn) packing {
	p := packing{
		scaleIn: &atomic.Value{}, mu: &sync.Mutex{}, due: map[string]map[governing.GroupKey]dueAt{},
		written: map[governing.GroupKey]exchanged{}, spent: lru.New(remembered),
	}
	p.scaleIn.Store(s)
	return p
}

// decided notes that a workload has changed. What was decided while nothing is exchanged is considered after the next decision.
func (p packing) decided(e *rebalance.Entry, now time.Time) {
	if p.scaleIn.Load() == controller.ScaleInKeep || !ordered(&e.Group) {
		return
	}
	as := stateOf(e)
	p.mu.Lock()
	defer p.mu.Unlock()
	if due, is := p.due[e.Group.Key.Namespace][e.Group.Key]; !is || !due.begun && due.as != as {
		p.set(e.Group.Key, dueAt{at: now.Add(max(leastQuiet, e.Settings.Stabilization)), as: as})
	}
}

// set notes when a workload is considered. p.mu is held.
func (p packing) set(key governing.GroupKey, d dueAt) {
	if p.due[key.Namespace] == nil {
		p.due[key.Namespace] = map[governing.GroupKey]dueAt{}
	}
	p.due[key.Namespace][key] = d
}

// goOn has a workload considered again. If that is soon, no decision delays it: the exchanges until then are decisions themselves.
func (p packing) goOn(e *rebalance.Entry, at, now time.Time) {
	due := dueAt{at, at.Sub(now) <= soon, stateOf(e)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(e.Group.Key, due)
}

// namespaces are those with workloads that are due. What the watch had to show by now is forgotten, also of workloads that are deleted.
func (p packing) namespaces(now time.Time) (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.written, func(_ governing.GroupKey, w exchanged) bool { return !now.Before(w.until) })
	for name, keys := range p.due {
		for _, d := range keys {
			if !d.at.After(now) {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// take returns the workloads of a namespace that are due, which are not from then on.
func (p packing) take(namespace string, now time.Time) (keys []governing.GroupKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.due[namespace]
	for key, d := range all {
		if !d.at.After(now) {
			keys = append(keys, key)
			delete(all, key)
		}
	}
	if len(all) == 0 {
		delete(p.due, namespace)
	}
	return keys
}

// left returns how many exchanges a workload of so many replicas may make, and until when.
func (p packing) left(key governing.GroupKey, replicas int, now time.Time) (swaps int, until time.Time) {
	s := p.spending(key, now)
	return max(0, perReplica*replicas-s.swaps), s.since.Add(packWindow)
}

func (p packing) spending(key governing.GroupKey, now time.Time) spending {
	if known, ok := p.spent.Get(key); ok {
		if s := known.(spending); now.Sub(s.since) < packWindow {
			return s
		}
	}
	return spending{since: now}
}

// begin notes an exchange that is about to be written.
func (p packing) begin(key governing.GroupKey, now time.Time) {
	s := p.spending(key, now)
	s.swaps++
	p.spent.Add(key, s)
}

// wrote notes an exchange that was written.
func (p packing) wrote(key governing.GroupKey, s scalein.Swap, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.written[key]
	if w.slots == nil {
		w.slots = map[types.UID]int{}
	}
	for _, c := range []scalein.Change{s.First, s.Second} {
		w.slots[types.UID(c.ID)] = c.To
	}
	w.until = now.Add(shownWithin)
	p.written[key] = w
}

// unseen reports whether a workload is one in which slots were written that the watch has not shown yet.
func (p packing) unseen(g *clusterstate.Group, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.written[g.Key]
	if !ok {
		return false
	}
	if now.Before(w.until) && !w.shown(g) {
		return true
	}
	delete(p.written, g.Key)
	return false
}

// shown reports whether a workload has the slots that were written. A pod that is gone has none.
func (w exchanged) shown(g *clusterstate.Group) bool {
	for i := range g.Assignments {
		p := g.Assignments[i].Pod
		slot, wrote := w.slots[p.UID]
		if has, _ := p.Annotation(v1alpha1.SlotAnnotation); wrote && has != strconv.Itoa(slot) {
			return false
		}
	}
	return true
}

// ordered reports whether the owner of a group removes the replica with the highest slot first because of its deletion cost, whichever
// replica that is: the group is that of one ReplicaSet.
func ordered(g *clusterstate.Group) bool {
	if !g.Counted || g.Identity || g.AnyOrder || g.Governing.RespectCosts || g.Units || len(g.Taken) > 0 || len(g.Assignments) < 2 {
		return false
	}
	owner := g.Assignments[0].Pod.Owner
	return owner != nil && owner.Kind == "ReplicaSet"
}

// limited reports whether a group has a hard limit of the replicas in one domain.
func limited(g *clusterstate.Group) bool {
	return slices.ContainsFunc(g.Governing.MaxPerDomain, func(l domains.Limit) bool { return !l.Soft })
}
