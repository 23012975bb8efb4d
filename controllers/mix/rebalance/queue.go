// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"cmp"
	"container/heap"

	"k8s.io/client-go/util/workqueue"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
)

// newQueue returns a work queue that hands out its keys in the controller's order.
func (c *Controller) newQueue(
	name string, limiter workqueue.TypedRateLimiter[governing.GroupKey],
) workqueue.TypedRateLimitingInterface[governing.GroupKey] {
	keys := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[governing.GroupKey]{Name: name, Clock: c.Clock, Queue: c.Order()})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[governing.GroupKey]{
		Name: name, Clock: c.Clock,
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[governing.GroupKey]{
			Name:  name,
			Clock: c.Clock, Queue: keys,
		}),
	})
}

// Order returns the order in which keys that are due are reconciled.
func (c *Controller) Order() workqueue.Queue[governing.GroupKey] {
	return &byWorkload{group: func(key governing.GroupKey) *clusterstate.Group { return c.State.Group(key) }}
}

// byWorkload orders keys by namespace and workload. Workloads compete for the budgets of the cluster and of their mix: in this
// order, who gets a place depends on the workloads that are due, and not on the order of the events that made them due. It
// is what makes a reconcile of what changed find the same as a reconcile of everything.
type byWorkload struct {
	// group returns the group of a key, nil if there is none.
	group func(governing.GroupKey) *clusterstate.Group
	// pushed are the keys since the last Pop. Informers push: the groups are found by the worker, which pops.
	pushed []governing.GroupKey
	queued queued
}

var _ workqueue.Queue[governing.GroupKey] = &byWorkload{}

// fewKeys is how many keys an empty queue keeps memory for.
const fewKeys = 64

// Touch implements workqueue.Queue.
func (*byWorkload) Touch(governing.GroupKey) {}

// Push implements workqueue.Queue.
func (q *byWorkload) Push(key governing.GroupKey) { q.pushed = append(q.pushed, key) }

// Len implements workqueue.Queue.
func (q *byWorkload) Len() int { return len(q.pushed) + len(q.queued) }

// Pop implements workqueue.Queue.
func (q *byWorkload) Pop() governing.GroupKey {
	for _, key := range q.pushed {
		item := queuedKey{key: key}
		if key.ID != "" {
			item.group = q.group(key)
		}
		heap.Push(&q.queued, item)
	}
	q.pushed = q.pushed[:0]
	key := heap.Pop(&q.queued).(queuedKey).key
	if q.Len() == 0 && cap(q.queued) > fewKeys {
		q.pushed, q.queued = nil, nil // the memory of a reconcile of everything is not kept
	}
	return key
}

type queuedKey struct {
	key   governing.GroupKey
	group *clusterstate.Group
}

// rank puts a namespace before its workloads, and those that have no pods any more last.
func (k *queuedKey) rank() int {
	switch {
	case k.key.ID == "":
		return 0
	case k.group != nil:
		return 1
	}
	return 2
}

// queued is a heap.
type queued []queuedKey

func (q queued) Len() int      { return len(q) }
func (q queued) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q queued) Less(i, j int) bool {
	a, b := &q[i], &q[j]
	if c := cmp.Or(cmp.Compare(a.key.Namespace, b.key.Namespace), cmp.Compare(a.rank(), b.rank())); c != 0 {
		return c < 0
	}
	if a.group == nil {
		return a.key.ID < b.key.ID
	}
	return clusterstate.ByWorkload(a.group, b.group) < 0
}

func (q *queued) Push(x any) { *q = append(*q, x.(queuedKey)) }

func (q *queued) Pop() any {
	last := len(*q) - 1
	item := (*q)[last]
	(*q)[last] = queuedKey{} // it holds no group
	*q = (*q)[:last]
	return item
}
