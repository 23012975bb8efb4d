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
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
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
	c.asked.sweep(ctx, began)
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
		c.leavers.sweep(ctx, key)
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
	c.enqueueEmpty(key)
	g := c.State.Group(key)
	if g == nil {
		if e, known := c.Workloads.Get(key); known {
			w := &evaluation{Evaluation: rebalance.Vanished(e, c.State.Follows(key), c.Clock.Now(), c.limits())}
			if w.Gone {
				c.asked.abandon(ctx, e.Moves)
			} else {
				c.empty[key] = struct{}{}
			}
			c.store(w)
		}
	} else {
		w, err := c.observe(ctx, g)
		if err != nil {
			return fmt.Errorf("read what a decision about %s in namespace %s needs: %w", g.Workload, key.Namespace, err)
		}
		if !w.WrongSince.IsZero() || w.Before.InFlight() > 0 || w.crowds { // otherwise nothing is logged
			ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("mix", w.Mix, "workload", g.Workload.Name, "kind", g.Workload.Kind,
				"namespace", key.Namespace))
		}
		c.decide(ctx, w)
		c.store(w)
	}
	return nil
}

// enqueueEmpty queues the workloads without pods whose owner a key names. The cluster state reports an owner that changes by the groups
// that its pods are in, and a group by the highest owner that has no pods any more is not among them.
func (c *Controller) enqueueEmpty(key governing.GroupKey) {
	delete(c.empty, key)
	for k := range c.empty {
		if k.Namespace == key.Namespace && string(k.Owner()) == key.ID {
			c.enqueue(k)
		}
	}
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
	requested := c.requested(name)
	for _, g := range c.State.Current(name) {
		settled, there := c.Workloads.Settled(g, versionOf(mixes[g.Governing.CapacityMix()]))
		if there {
			known++
		}
		if all || !settled || hasAny(g, requested) ||
			slices.ContainsFunc(holders, func(h *clusterstate.Pod) bool { return has(g, rebalance.ReplicaOf(h)) }) {
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
		c.leavers.sweep(ctx, governing.GroupKey{Namespace: name})
	}
	return nil
}

// namespaces returns every namespace that has pods, has had them, or has a mix, sorted. One that has nothing but a placeholder is
// among them.
func (o *Options) namespaces(mixes map[string]map[string]*v1alpha1.CapacityMix) []string {
	names := sets.KeySet(mixes).Insert(o.State.Namespaces()...).Insert(o.Workloads.Namespaces()...)
	for _, p := range slices.Concat(o.State.Placeholders(""), o.State.Released("")) {
		names.Insert(p.Namespace)
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
