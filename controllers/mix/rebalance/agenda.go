// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"container/heap"
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/policy"
)

// agenda is what is to be looked at.
type agenda struct {
	everything bool
	namespaces map[string]*topics
}

// topics are those of one namespace.
type topics struct {
	all    bool
	groups map[string]bool // by ID
}

func newAgenda() *agenda { return &agenda{namespaces: map[string]*topics{}} }

func (a *agenda) add(key policy.GroupKey) {
	if key == everything {
		a.everything = true
		return
	}
	t := a.namespaces[key.Namespace]
	if t == nil {
		t = &topics{groups: map[string]bool{}}
		a.namespaces[key.Namespace] = t
	}
	if key.ID == "" {
		t.all = true
	} else {
		t.groups[key.ID] = true
	}
}

// takeAgenda returns what is to be looked at now, and forgets it.
func (c *Controller) takeAgenda(ctx context.Context, now time.Time) *agenda {
	c.mu.Lock()
	a := c.dirty
	c.dirty = newAgenda()
	c.mu.Unlock()
	for _, key := range c.due.take(now) {
		a.add(key)
	}
	c.addRoomless(a)
	if a.everything {
		c.addAll(ctx, a)
	}
	if len(c.Namespaces) > 0 {
		for n := range a.namespaces {
			if !slices.Contains(c.Namespaces, n) {
				delete(a.namespaces, n)
			}
		}
	}
	return a
}

// addRoomless adds the groups that waited for room which there may be now.
func (c *Controller) addRoomless(a *agenda) {
	for t, before := range c.room {
		now := c.State.Room(t)
		if now == before {
			continue
		}
		delete(c.room, t)
		for key, types := range c.roomless {
			if types[t] {
				a.add(key)
			}
		}
	}
}

// addAll adds every namespace that has pods, has had them, or has a mix. One
// that has nothing but a placeholder is among them.
func (c *Controller) addAll(ctx context.Context, a *agenda) {
	all := func(namespace string) { a.add(policy.GroupKey{Namespace: namespace}) }
	for _, n := range c.State.Namespaces() {
		all(n)
	}
	for _, h := range c.State.Placeholders("") {
		all(h.Namespace)
	}
	for _, n := range c.Workloads.Namespaces() {
		all(n)
	}
	var mixes v1alpha1.CapacityMixList
	if err := c.Reader.List(ctx, &mixes, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list CapacityMixes")
		return
	}
	for i := range mixes.Items {
		all(mixes.Items[i].Namespace)
	}
}

// contention is how much the budget of the cluster is in demand: how many
// replicas are being moved, and whether workloads of a namespace, or of any, wait.
type contention struct {
	inFlight       int
	waitHere, wait bool
}

func (p *pass) contention(namespace string) contention {
	inFlight, here, wait := p.Workloads.Contention(namespace)
	return contention{inFlight, here > 0, wait > 0}
}

// inFlightChanged has the workloads looked at to which it matters that a move of one began
// or ended: those of the mix; and all where
// the limit of the cluster is, or was, reached, or where namespaces wait for their
// turn. Those that come later in the order of this look are part of it, as they
// would be if it were one at everything.
func (p *pass) inFlightChanged(before, after *workloads.Entry, was contention) {
	is := p.contention(after.Group.Key.Namespace)
	same := sameInFlight(before, after)
	if same && was.waitHere == is.waitHere {
		return
	}
	namespaces := []string{after.Group.Key.Namespace}
	concerned := func(e *workloads.Entry) bool { return e.Mix != "" && (e.Mix == after.Mix || e.Mix == before.Mix) }
	if max(was.inFlight, is.inFlight) >= p.ClusterMaxConcurrent || was.wait || is.wait {
		namespaces = p.Workloads.Namespaces()
		concerned = func(*workloads.Entry) bool { return true }
	}
	for _, n := range namespaces {
		for _, e := range p.Workloads.Unsettled(n) {
			if e.Group.Key != after.Group.Key && concerned(&e) {
				p.also(&e)
			}
		}
	}
}

func sameInFlight(a, b *workloads.Entry) bool {
	samePlaceholders := slices.EqualFunc(a.Placeholders, b.Placeholders, func(x, y workloads.Placeholder) bool { return x.UID == y.UID && x.Slow == y.Slow })
	return samePlaceholders && slices.Equal(a.Moves, b.Moves) && (b.InFlight() == 0 || a.Mix == b.Mix)
}

// delaying queue says when which group has to be looked at again.
type timetable struct {
	at    map[policy.GroupKey]time.Time
	queue dueTimes // has an element for each of at, and others that do not count any more
}

func newTimetable() *timetable { return &timetable{at: map[policy.GroupKey]time.Time{}} }

// set replaces the time of a group; the zero time is none.
func (t *timetable) set(key policy.GroupKey, at time.Time) {
	switch old, known := t.at[key]; {
	case at.IsZero():
		delete(t.at, key)
	case !known || !old.Equal(at):
		t.at[key] = at
		heap.Push(&t.queue, dueTime{key, at})
	}
}

// atLatest is set, unless there is an earlier time already.
func (t *timetable) atLatest(key policy.GroupKey, at time.Time) {
	if old, known := t.at[key]; !known || at.Before(old) {
		t.set(key, at)
	}
}

// take returns the groups whose time has come, and forgets them.
func (t *timetable) take(now time.Time) (keys []policy.GroupKey) {
	for {
		at, ok := t.next()
		if !ok || now.Before(at) {
			return keys
		}
		first := heap.Pop(&t.queue).(dueTime)
		delete(t.at, first.key)
		keys = append(keys, first.key)
	}
}

// next is when the first is due.
func (t *timetable) next() (at time.Time, ok bool) {
	for len(t.queue) > 0 {
		first := t.queue[0]
		if at, known := t.at[first.key]; known && at.Equal(first.at) {
			return first.at, true
		}
		heap.Pop(&t.queue)
	}
	return time.Time{}, false
}

type dueTime struct {
	key policy.GroupKey
	at  time.Time
}

type dueTimes []dueTime

func (d dueTimes) Len() int           { return len(d) }
func (d dueTimes) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d dueTimes) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dueTimes) Push(x any)        { *d = append(*d, x.(dueTime)) }

func (d *dueTimes) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	*d = (*d)[:last]
	return x
}
