// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/rebalance"
)

// pass is one look at what has changed. Its snapshot is shared by all questions
// about room, and dropped with it.
type pass struct {
	*Controller
	now time.Time
	// retuned looks at what has not changed too: the tuning has.
	retuned  bool
	cluster  rebalance.Cluster
	snapshot snapshot
	taken    time.Time
	// work is what is looked at; sorted are its namespaces from the present one on.
	work   *agenda
	sorted []string
	// turn has the groups of the present namespace that are still to come, after the present one, and present that.
	turn    []*clusterstate.Group
	present *clusterstate.Group
	// next is when what is looked at will be due again, lacks the types that had no room for it.
	next  time.Time
	lacks map[capacity.Type]bool
	// decided is told when the namespace is done.
	decided workloads.Decision
}

// Look looks at every group that changed, or whose time has come.
func (c *Controller) Look(ctx context.Context) {
	p := &pass{Controller: c, now: c.Clock.Now()}
	defer p.close()
	c.forgetReleased(p.now)
	p.retuned = c.takeTuning()
	p.cluster = c.clusterNow(p.now)
	p.loadJournal(ctx)
	p.work = c.takeAgenda(ctx, p.now)
	var first []workloads.Decision
	for p.sorted = slices.Sorted(maps.Keys(p.work.namespaces)); len(p.sorted) > 0; p.sorted = p.sorted[1:] {
		if ctx.Err() != nil {
			return
		}
		p.namespace(ctx, p.sorted[0])
		if c.Workloads.Complete() {
			c.Decided(p.decided)
		} else {
			first = append(first, p.decided)
		}
	}
	_ = p.writeJournal(ctx) // it is logged, and tried again before the next move
	scope := "partial"
	if p.work.everything {
		scope = "all"
	}
	lookSeconds.WithLabelValues(scope).Observe(c.Clock.Since(p.now).Seconds())
	if p.work.everything && !c.Workloads.Complete() {
		c.Workloads.SetComplete()
		for _, d := range first {
			c.Decided(d)
		}
	}
}

func (p *pass) close() {
	if p.snapshot != nil {
		p.snapshot.Close()
		p.snapshot = nil
	}
}

// namespace looks at groups of a namespace one after the other: at all, but for
// those about which nothing can have changed, or at some.
func (p *pass) namespace(ctx context.Context, namespace string) {
	t := p.work.namespaces[namespace]
	at := &place{pass: p, namespace: namespace, holders: p.placeholdersIn(namespace)}
	// Placeholders are few, and what happens to them concerns the workloads of their replicas.
	all := t.all || len(at.holders) > 0
	p.decided = workloads.Decision{Namespace: namespace, Mixes: map[string]bool{}}
	if all {
		if err := at.readMixes(ctx); err != nil {
			log.FromContext(ctx).Error(err, "Cannot read a namespace", "namespace", namespace)
			return
		}
		p.decided.All = at.mixes
		p.turn = p.State.Current(namespace)
	} else {
		// What is out of its mix may depend on anything in its namespace. Those are few, and looked at with the others.
		for _, e := range p.Workloads.Unsettled(namespace) {
			t.groups[e.Group.Key.ID] = true
		}
		p.turn = p.groupsOf(namespace, t)
	}
	there := len(p.turn)
	for len(p.turn) > 0 {
		g := p.turn[0]
		p.present, p.turn = g, p.turn[1:]
		if !all || !p.unchanged(g, at) {
			p.group(ctx, g, at)
		}
	}
	p.present = nil
	switch {
	case !all:
		p.forget(namespace, t)
	case p.Workloads.Len(namespace) != there: // every group that is there has an entry
		p.forgetOthers(namespace)
	}
	p.sweep(ctx, namespace, at.holders)
}

// groupsOf returns the groups of some keys, in order.
func (p *pass) groupsOf(namespace string, t *topics) (list []*clusterstate.Group) {
	for id := range t.groups {
		if g := p.State.Group(policy.GroupKey{Namespace: namespace, ID: id}); g != nil {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, clusterstate.ByWorkload)
	return list
}

// also has a group looked at in addition: in its turn, if that is still to come.
func (p *pass) also(e *workloads.Entry) {
	key := e.Group.Key
	switch cmp.Compare(key.Namespace, p.sorted[0]) {
	case 1:
		p.work.add(key)
		if i, there := slices.BinarySearch(p.sorted, key.Namespace); !there {
			p.sorted = slices.Insert(p.sorted, i, key.Namespace)
		}
		return
	case 0:
		if p.present == nil || clusterstate.ByWorkload(&e.Group, p.present) <= 0 {
			break
		}
		g := p.State.Group(key)
		if g == nil {
			break
		}
		if i, there := slices.BinarySearchFunc(p.turn, g, clusterstate.ByWorkload); !there {
			p.turn = slices.Insert(slices.Clone(p.turn), i, g)
		}
		return
	}
	p.Changed(key)
}

// unchanged reports whether a look at a group would find what the last one did.
// That is so for one that is settled, as long as it is the same group under the
// same mix and the same tuning, and no one has made a placeholder for one of its
// replicas.
func (p *pass) unchanged(g *clusterstate.Group, at *place) bool {
	settled, _ := p.Workloads.Settled(g, versionOf(at.mixes[mixOf(g)]))
	if p.retuned || !p.Workloads.Complete() || !settled {
		return false
	}
	for _, h := range at.holders {
		if slices.ContainsFunc(g.Seats, func(s clusterstate.Seat) bool { return s.Pod.UID == replicaOf(h) }) {
			return false
		}
	}
	return true
}

// forgetOthers drops the entries of a namespace that have no group any more.
func (p *pass) forgetOthers(namespace string) {
	for _, e := range p.Workloads.Namespace(namespace) {
		if p.State.Group(e.Group.Key) == nil {
			p.vanished(e)
		}
	}
}

// forget does so for some groups.
func (p *pass) forget(namespace string, t *topics) {
	for id := range t.groups {
		key := policy.GroupKey{Namespace: namespace, ID: id}
		if e, known := p.Workloads.Get(key); known && p.State.Group(key) == nil {
			p.vanished(e)
		}
	}
}

// vanished is for a group that has no pods, or no mix, any more.
func (p *pass) vanished(e workloads.Entry) {
	p.next, p.lacks = time.Time{}, nil
	old := e
	before := p.contention(e.Group.Key.Namespace)
	p.changed(&old, nil)
	if p.comesBack(&e) {
		p.Workloads.Put(e)
		p.journal.note(&e, p.now)
	} else {
		p.Workloads.Delete(e.Group.Key)
		if (e.Group.Counted || e.Group.Ended) && !p.State.Follows(e.Group.Key) {
			p.journal.forget(e.Group.Key) // its owner wants no more pods; another one may yet replace them
		}
		e.Moves, e.Placeholders = nil, nil
	}
	p.noted(e.Group.Key)
	p.inFlightChanged(&old, &e, before)
}

// comesBack reports whether a group without a pod is about to have one again:
// its only replica was moved, and the replacement is not there yet, as with a
// StatefulSet until the old pod is gone. Were it forgotten, so would be that
// the move failed, and it would be moved again without end.
func (p *pass) comesBack(e *workloads.Entry) bool {
	if len(e.Moves) == 0 || !p.State.Follows(e.Group.Key) {
		return false
	}
	e.Group.Seats, e.Seen, e.Selecting = nil, nil, nil
	back := false
	e.Moves = slices.Clone(e.Moves)
	for i := range e.Moves {
		m := &e.Moves[i]
		m.Slow = p.now.Sub(m.Started) >= rebalance.SlowAfter
		back = back || p.now.Before(m.Started.Add(p.MoveTimeout))
	}
	if back {
		p.scheduleMoves(e)
	}
	return back
}
