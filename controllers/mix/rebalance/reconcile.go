// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

// Reconcile implements reconcile.TypedReconciler. It observes a workload, decides, and records the outcome. For a key without
// an ID it queues the workloads of the namespace, or of all namespaces, for which the outcome may be another one.
func (c *Controller) Reconcile(ctx context.Context, key governing.GroupKey) (reconcile.Result, error) {
	began := c.Clock.Now()
	c.holders.forgetReleased(began)
	c.journal.load(ctx, began)
	if c.lacking.requeue(c.State.CapacityVersion, c.queue) {
		c.queue.Add(key) // one of them may have its turn before this one: the queue has the order
		return reconcile.Result{}, nil
	}
	var err error
	switch {
	case key == everything:
		err = c.everything(ctx, began)
	case key.ID == "":
		err = c.namespace(ctx, key.Namespace)
	default:
		err = c.workload(ctx, key)
	}
	if err == nil && key != everything {
		c.holders.sweep(ctx, key)
	}
	c.finish(key, began)
	if c.queue.Len() == 0 {
		c.proof.closeSnapshot()
		_ = c.journal.write(ctx) // it is logged, and tried again before the next move
	}
	return reconcile.Result{}, err
}

// workload reconciles one workload.
func (c *Controller) workload(ctx context.Context, key governing.GroupKey) error {
	g := c.State.Group(key)
	if g == nil {
		if e, known := c.Workloads.Get(key); known {
			c.record(c.vanished(e))
		}
	} else {
		w, err := c.observe(ctx, g)
		if err != nil {
			return fmt.Errorf("read what a decision about %s in namespace %s needs: %w", g.Workload, key.Namespace, err)
		}
		if !w.WrongSince.IsZero() || w.before.InFlight() > 0 || len(w.holders) > 0 { // otherwise nothing is logged
			ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("mix", w.Mix, "workload", g.Workload.Name, "kind", g.Workload.Kind,
				"namespace", key.Namespace))
		}
		c.decide(ctx, w)
		c.record(w)
	}
	return nil
}

// namespace queues the workloads of a namespace: all, or only those for which the outcome may be another one. That is not so
// for one that is settled, as long as it is the same group with the same mix, and no replica of it has a placeholder.
func (c *Controller) namespace(ctx context.Context, name string) error {
	mixes, err := mixesIn(ctx, c.Reader, name)
	if err != nil {
		return fmt.Errorf("list the CapacityMixes of namespace %s: %w", name, err)
	}
	c.enqueueNamespace(name, mixes[name], false)
	return nil
}

func (c *Controller) enqueueNamespace(name string, mixes map[string]*v1alpha1.CapacityMix, all bool) {
	all = all || !c.Workloads.Complete()
	holders, known := c.holders.placeholdersIn(name), 0
	for _, g := range c.State.Current(name) {
		settled, there := c.Workloads.Settled(g, versionOf(mixes[mixOf(g)]))
		if there {
			known++
		}
		if all || !settled || slices.ContainsFunc(holders, func(h *clusterstate.Pod) bool { return has(g, rebalance.ReplicaOf(h)) }) {
			c.enqueue(g.Key)
		}
	}
	if known < c.Workloads.Len(name) {
		for _, e := range c.Workloads.Namespace(name) {
			if c.State.Group(e.Group.Key) == nil {
				c.enqueue(e.Group.Key)
			}
		}
	}
	c.decided(&workloads.Decision{Namespace: name, All: mixes})
}

// round is a reconcile of everything, from its begin until the workloads that it queued are done.
type round struct {
	began time.Time
	left  map[governing.GroupKey]struct{}
}

// everything queues the workloads of every namespace. A new tuning may change the outcome for all of them.
func (c *Controller) everything(ctx context.Context, now time.Time) error {
	if c.round == nil {
		c.round = &round{began: now, left: map[governing.GroupKey]struct{}{}}
	}
	all := c.applyTuning()
	c.queue.AddAfter(everything, c.Resync)
	mixes, err := mixesIn(ctx, c.Reader, metav1.NamespaceAll)
	if err != nil {
		return fmt.Errorf("list the CapacityMixes of all namespaces: %w", err)
	}
	for _, name := range c.namespaces(mixes) {
		c.enqueueNamespace(name, mixes[name], all)
		c.holders.sweep(ctx, governing.GroupKey{Namespace: name})
	}
	return nil
}

// namespaces returns every namespace that has pods, has had them, or has a mix, sorted. One that has nothing but a placeholder is
// among them.
func (o *Options) namespaces(mixes map[string]map[string]*v1alpha1.CapacityMix) []string {
	names := sets.KeySet(mixes).Insert(o.State.Namespaces()...).Insert(o.Workloads.Namespaces()...)
	for _, h := range o.State.Placeholders("") {
		names.Insert(h.Namespace)
	}
	return slices.DeleteFunc(sets.List(names), func(name string) bool { return !o.reconciles(name) })
}

// enqueue queues a workload at once.
func (c *Controller) enqueue(key governing.GroupKey) {
	if c.round != nil {
		c.round.left[key] = struct{}{}
	}
	c.queue.Add(key)
}

// finish ends a reconcile, and a round with its last workload.
func (c *Controller) finish(key governing.GroupKey, began time.Time) {
	if key != everything {
		reconcileSeconds.WithLabelValues("partial").Observe(c.Clock.Since(began).Seconds())
	}
	if c.round == nil {
		return
	}
	if delete(c.round.left, key); len(c.round.left) > 0 {
		return
	}
	reconcileSeconds.WithLabelValues("all").Observe(c.Clock.Since(c.round.began).Seconds())
	c.round = nil
	if c.Workloads.Complete() {
		return
	}
	c.Workloads.SetComplete()
	for _, name := range slices.Sorted(maps.Keys(c.first)) {
		c.Decided(*c.first[name])
	}
	c.first = nil
}

// decided passes a decision on, once every workload was reconciled: a status that is composed before that misses some.
func (c *Controller) decided(d *workloads.Decision) {
	if c.Workloads.Complete() {
		c.Decided(*d)
		return
	}
	if first := c.first[d.Namespace]; first != nil {
		first.Add(d)
	} else {
		c.first[d.Namespace] = d
	}
}

// record stores what a reconcile of a workload has come to, and queues what depends on it. It is the only place that does.
func (c *Controller) record(w *evaluation) {
	e, before := &w.Entry, &w.before
	key := e.Group.Key
	again := !sameInFlight(w.stored, e) || !sameInFlight(before, e)
	if again {
		e.Group.Version = 0 // it was observed as it was before, so the next reconcile of everything must not leave it out
	}
	// What is held back in this reconcile may change the verdict about the other replicas.
	again = again || !maps.EqualFunc(before.Held, e.Held,
		func(a, b rebalance.Hold) bool { return a.Until.Equal(b.Until) && a.Verdict.Reason == b.Verdict.Reason })
	was := contentionIn(c.Workloads, key.Namespace)
	if w.gone {
		c.Workloads.Delete(key)
		e.Moves, e.Placeholders, again = nil, nil, false
	} else {
		c.Workloads.Put(*e)
		c.journal.note(e, w.now)
	}
	if again {
		c.Changed(key)
	}
	if !w.next.IsZero() {
		c.queue.AddAfter(key, max(w.next.Sub(c.Clock.Now()), holdChanged))
	}
	c.lacking.note(key, w.lacks)
	c.decided(decisionOf(before, e))
	c.requeueContended(w.stored, e, was)
}

// decisionOf names the mixes that have another status after a reconcile of a workload.
func decisionOf(before, after *rebalance.Entry) *workloads.Decision {
	d := &workloads.Decision{Namespace: after.Group.Key.Namespace, Groups: []governing.GroupKey{after.Group.Key}, Mixes: map[string]bool{}}
	names := []string{before.Mix, after.Mix}
	if before.Mix != after.Mix || !slices.Equal(before.Selecting, after.Selecting) {
		names = slices.Concat(names, before.Selecting, after.Selecting)
	}
	for _, n := range names {
		if n != "" {
			d.Mixes[n] = true
		}
	}
	return d
}

// lacking has the workloads with a replica that would move if a type had capacity.
type lacking struct {
	workloads map[governing.GroupKey]map[capacity.Type]uint64
	// versions are those of the capacity of a type when the first of these workloads was decided.
	versions map[capacity.Type]uint64
}

// note replaces the types that a workload lacks, with the versions of their capacity.
func (l *lacking) note(key governing.GroupKey, types map[capacity.Type]uint64) {
	delete(l.workloads, key)
	if types != nil {
		l.workloads[key] = types
	}
	for t, version := range types {
		if _, known := l.versions[t]; !known {
			l.versions[t] = version
		}
	}
}

// requeue queues the workloads that lack a type which may have capacity now. It reports whether there is one.
func (l *lacking) requeue(now func(capacity.Type) uint64, queue workqueue.TypedRateLimitingInterface[governing.GroupKey]) (queued bool) {
	for t, version := range l.versions {
		if now(t) == version {
			continue
		}
		delete(l.versions, t)
		for key, types := range l.workloads {
			if _, lacks := types[t]; lacks {
				queue.Add(key)
				queued = true
			}
		}
	}
	return queued
}

// contention is how much the budget of the cluster is in demand: how many
// replicas are being moved, and whether workloads of a namespace, or of any, wait.
type contention struct {
	inFlight       int
	waitHere, wait bool
}

func contentionIn(store *workloads.Store, namespace string) contention {
	inFlight, here, wait := store.Contention(namespace)
	return contention{inFlight, here > 0, wait > 0}
}

// requeueContended queues the workloads to which it matters that a move of one began or ended: those of the mix; and all
// where the limit of the cluster is, or was, reached, or where namespaces wait for their turn.
func (c *Controller) requeueContended(before, after *rebalance.Entry, was contention) {
	is := contentionIn(c.Workloads, after.Group.Key.Namespace)
	if sameInFlight(before, after) && was.waitHere == is.waitHere {
		return
	}
	namespaces := []string{after.Group.Key.Namespace}
	concerned := func(e *rebalance.Entry) bool { return e.Mix != "" && (e.Mix == after.Mix || e.Mix == before.Mix) }
	if max(was.inFlight, is.inFlight) >= c.ClusterMaxConcurrent || was.wait || is.wait {
		namespaces = c.Workloads.Namespaces()
		concerned = func(*rebalance.Entry) bool { return true }
	}
	for _, n := range namespaces {
		for _, e := range c.Workloads.Unsettled(n) {
			if e.Group.Key != after.Group.Key && concerned(&e) {
				c.queue.Add(e.Group.Key)
			}
		}
	}
}

func sameInFlight(a, b *rebalance.Entry) bool {
	samePlaceholders := slices.EqualFunc(a.Placeholders, b.Placeholders,
		func(x, y rebalance.Placeholder) bool { return x.UID == y.UID && x.Slow == y.Slow })
	return samePlaceholders && slices.Equal(a.Moves, b.Moves) && (b.InFlight() == 0 || a.Mix == b.Mix)
}
