// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/internal/mix/clusterstate"
)

const (
	// together is how long changes of a namespace are collected before it is recounted.
	together = 500 * time.Millisecond
	// syncedEvery is how often Synced is called until it returns true.
	syncedEvery = 100 * time.Millisecond
)

// Pods is the part of the cluster state that a tracker reads.
type Pods interface {
	AllPods(namespace string) []*clusterstate.Pod
	AllNamespaces() []string
	Above(p *clusterstate.Pod) clusterstate.Workload
}

// Limits are the limits of a cluster.
type Limits interface {
	For(pod *corev1.Pod) registry.Resolution
	// Exceeds reports whether a limit selects no pods because its namespace has too many older ones.
	Exceeds(namespace, name string) bool
}

// Tracker counts the users of each limit. It runs on the leader.
type Tracker struct {
	Pods      Pods
	Templates *Templates
	Limits    Limits
	// List returns the limits of a namespace, all for "".
	List func(ctx context.Context, namespace string) ([]*v1alpha1.ResourceLimit, error)
	// DefaultNamespace has the limits whose names are not in a pod's own namespace; "" for none.
	DefaultNamespace string
	// Synced reports whether the informers have synced.
	Synced func() bool
	// Differs is called with a limit whose usage has changed.
	Differs func(types.NamespacedName)

	queue workqueue.TypedRateLimitingInterface[string]

	mu sync.Mutex
	// counted is the usage of the limits in each namespace that was counted.
	counted map[string]map[types.NamespacedName]*Usage
	// started is set once every namespace was counted.
	started bool
}

// Start counts until the context ends. It implements manager.Runnable.
func (t *Tracker) Start(ctx context.Context) error {
	if err := t.first(ctx); err != nil {
		return nil // the context has ended, which is no failure
	}
	defer context.AfterFunc(ctx, t.queue.ShutDown)()
	for {
		namespace, end := t.queue.Get()
		if end {
			return nil
		}
		if err := t.count(ctx, namespace); err != nil {
			t.queue.AddRateLimited(namespace)
		} else {
			t.queue.Forget(namespace)
		}
		t.queue.Done(namespace)
	}
}

// NewTracker returns a tracker. The caller sets its fields.
func NewTracker() *Tracker {
	return &Tracker{
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
		counted: map[string]map[types.NamespacedName]*Usage{},
	}
}

// first counts every namespace, once the informers have synced.
func (t *Tracker) first(ctx context.Context) error {
	synced := func(context.Context) (bool, error) { return t.Synced(), nil }
	if err := wait.PollUntilContextCancel(ctx, syncedEvery, true, synced); err != nil {
		return err
	}
	for _, namespace := range t.namespaces() {
		if err := t.count(ctx, namespace); err != nil {
			t.Changed(namespace)
		}
	}
	t.mu.Lock()
	t.started = true
	t.mu.Unlock()
	return nil
}

// namespaces returns those in which a limit can be used.
func (t *Tracker) namespaces() []string {
	all := sets.New(t.Pods.AllNamespaces()...).Insert(t.Templates.Namespaces()...)
	t.mu.Lock()
	defer t.mu.Unlock()
	return sets.List(all.Union(sets.KeySet(t.counted)))
}

// Changed recounts a namespace, after a delay.
func (t *Tracker) Changed(namespace string) {
	if namespace != "" { // nodes
		t.queue.AddAfter(namespace, together)
	}
}

// LimitChanged recounts the namespaces whose pods may use the limits of a namespace.
func (t *Tracker) LimitChanged(namespace string) {
	t.Changed(namespace)
	if namespace != t.DefaultNamespace {
		return
	}
	for _, other := range t.namespaces() {
		t.Changed(other)
	}
}

// count counts a namespace and reports the limits whose usage differs.
func (t *Tracker) count(ctx context.Context, namespace string) error {
	all, err := t.List(ctx, namespace)
	if err != nil {
		return err
	}
	now := tally(census{
		namespace: namespace, pods: t.Pods.AllPods(namespace), templates: t.Templates.In(namespace), limits: all,
	}, t.Limits.For, t.Pods.Above)
	t.mu.Lock()
	before := t.counted[namespace]
	if len(now) == 0 {
		delete(t.counted, namespace)
	} else {
		t.counted[namespace] = now
	}
	t.mu.Unlock()
	for key := range sets.KeySet(before).Union(sets.KeySet(now)) {
		if !equality.Semantic.DeepEqual(before[key], now[key]) {
			t.Differs(key)
		}
	}
	return nil
}

// Usage returns the users of a limit; false while they are not known yet. A fresh one includes the latest changes.
func (t *Tracker) Usage(ctx context.Context, key types.NamespacedName, fresh bool) (*Usage, bool, error) {
	t.mu.Lock()
	started := t.started
	t.mu.Unlock()
	if !started {
		return nil, false, nil
	}
	if fresh {
		all := []string{key.Namespace}
		if key.Namespace == t.DefaultNamespace {
			all = t.namespaces()
		}
		for _, namespace := range all {
			if err := t.count(ctx, namespace); err != nil {
				return nil, false, err
			}
		}
	}
	sum := newUsage()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, in := range t.counted {
		if u := in[key]; u != nil {
			sum.add(u)
		}
	}
	sum.Exceeds = t.Limits.Exceeds(key.Namespace, key.Name)
	return sum, true, nil
}
