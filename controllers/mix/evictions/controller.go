// SPDX-License-Identifier: Apache-2.0

// Package evictions answers the Evictions of lifecycle.k8s.io for which Berth is the active responder: controllers/mix/rebalance releases
// their pods, and this package reports what becomes of them. internal/mix/evictions makes the decisions.
package evictions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	lifecycleapply "k8s.io/client-go/applyconfigurations/lifecycle/v1alpha1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/evictions"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

const (
	// FieldOwner is the field manager of the answers.
	FieldOwner = "berth-controller-evictions"
	// callTimeout bounds one call to the API server.
	callTimeout = 5 * time.Second
	// retryAfter is when a failed answer is written again, doubled each time up to retryLatest.
	retryAfter, retryLatest = time.Second, time.Minute
	// debounce is how long changed pods of a namespace wait, so that those that come together are looked at together.
	debounce = 200 * time.Millisecond
)

// Options configure the controller. Every field is required, but for Namespaces and DryRun.
type Options struct {
	State  *clusterstate.State
	Client kubernetes.Interface
	Clock  clock.WithTicker
	// Synced reports whether the cluster state has been filled.
	Synced func() (waitingFor string, ok bool)
	Served *Served
	// Changed has a workload reconciled, and its pods released that are named.
	Changed func(governing.GroupKey)
	// Namespaces are those whose workloads are reconciled; empty: all.
	Namespaces []string
	// DryRun releases nothing. SetDryRun changes it.
	DryRun bool
}

// Controller answers Evictions. It is a manager.Runnable on the leader.
type Controller struct {
	Options
	dryRun atomic.Bool
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu    sync.Mutex // guards what follows
	table table
}

var _ manager.Runnable = &Controller{}

// New returns a controller that has read nothing.
func New(o Options) *Controller {
	c := &Controller{Options: o, table: newTable()}
	c.dryRun.Store(o.DryRun)
	c.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryAfter, retryLatest),
		workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Clock: o.Clock},
	)
	return c
}

// Start implements manager.Runnable: it watches and answers until the context ends.
func (c *Controller) Start(ctx context.Context) error {
	if !c.Served.await(ctx) || !workloads.Await(ctx, c.Clock, c.Synced) {
		return nil
	}
	c.watch(ctx)
	go func() {
		<-ctx.Done()
		c.queue.ShutDown()
	}()
	for {
		key, shutdown := c.queue.Get()
		if shutdown {
			return nil
		}
		if err := c.reconcile(ctx, key); err != nil {
			log.FromContext(ctx).Info("A request to evict a pod was not answered, and is answered later",
				"namespace", key.Namespace, "eviction", key.Name, "error", err.Error())
			c.queue.AddRateLimited(key)
		}
		c.queue.Done(key)
	}
}

// SetDryRun sets whether nothing is released from now on.
func (c *Controller) SetDryRun(is bool) { c.dryRun.Store(is) }

// PodsChanged has the requests of a namespace answered whose pods are others now.
func (c *Controller) PodsChanged(namespace string) {
	c.mu.Lock()
	there := c.table.pods[namespace] != nil
	c.mu.Unlock()
	if there {
		c.queue.AddAfter(types.NamespacedName{Namespace: namespace}, debounce)
	}
}

// Of implements rebalance.Requests.
func (c *Controller) Of(namespace string) map[types.UID]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table.pods[namespace]
}

// Decided implements rebalance.Requests.
func (c *Controller) Decided(namespace string, pod types.UID, f evictions.Fate) {
	c.mu.Lock()
	key, changed := c.table.decided(namespace, pod, f)
	c.mu.Unlock()
	if changed {
		c.queue.Add(key)
	}
}

// Confirm implements rebalance.Requests. A request may have been withdrawn, and the pod itself has to name Berth: who may write the status
// of Evictions decides about no other pods.
func (c *Controller) Confirm(ctx context.Context, pod *corev1.Pod) error {
	gone := rebalance.ReasonStaleView.Obstacle(rebalance.HoldMisplaced, "the eviction of pod %s is not requested any more", pod.Name)
	c.mu.Lock()
	key, known := c.table.of(pod.Namespace, pod.UID)
	c.mu.Unlock()
	if !known || !pods.NamesBerth(pod) {
		return gone
	}
	r, is, err := c.read(ctx, key)
	if err != nil {
		return err
	}
	if !is || r.PodUID != pod.UID || r.Pod != pod.Name {
		c.remove(key) // the watch is behind: it adds one that comes later
		return gone
	}
	return nil
}

// read returns the request that an Eviction is for Berth as the API server has it, and whether it is one.
func (c *Controller) read(ctx context.Context, key types.NamespacedName) (r evictions.Request, is bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	e, err := c.Client.LifecycleV1alpha1().Evictions(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return r, false, nil
	}
	if err != nil {
		return r, false, fmt.Errorf("read Eviction %s: %w", key.Name, err)
	}
	r, is = evictions.Of(e)
	return r, is, nil
}

// set takes over an Eviction as the watch has it.
func (c *Controller) set(e *lifecyclev1alpha1.Eviction) {
	r, is := evictions.Of(e)
	key := types.NamespacedName{Namespace: e.Namespace, Name: e.Name}
	c.mu.Lock()
	var begun bool
	if is {
		begun = c.table.set(key, r, c.Clock.Now())
	} else {
		c.table.remove(key)
	}
	c.mu.Unlock()
	if !is {
		return
	}
	c.queue.Add(key)
	if p := c.podOf(&r); begun && p != nil {
		c.Changed(c.State.KeyOf(p))
	}
}

// remove forgets an Eviction.
func (c *Controller) remove(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.table.remove(key)
}

// reconcile answers a request if an answer is due. A key without a name queues all requests of the namespace.
func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) error {
	c.mu.Lock()
	if key.Name == "" {
		defer c.mu.Unlock()
		for _, one := range c.table.in(key.Namespace) {
			c.queue.Add(one)
		}
		return nil
	}
	e, known := c.table.get(key, func(r *evictions.Request) bool { return c.podOf(r) != nil })
	c.mu.Unlock()
	if !known {
		c.queue.Forget(key)
		return nil
	}
	r, fate := e.Request, c.fateOf(&e)
	now := c.Clock.Now()
	answer, due := evictions.Answers(&r, fate, now)
	if due.Before(e.notBefore) {
		due = e.notBefore
	}
	if now.Before(due) {
		c.queue.AddAfter(key, due.Sub(now))
		return nil
	}
	written, err := c.write(ctx, &r, answer, now)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) && !c.waits(ctx, key, r.UID) {
		c.remove(key) // the watch shows what there is
		return nil
	}
	if err != nil {
		c.mu.Lock()
		c.table.failed(key, now.Add(retryAfter))
		c.mu.Unlock()
		return err
	}
	c.queue.Forget(key)
	if answer.Completes {
		log.FromContext(ctx).Info("Answered a request to evict a pod", "namespace", r.Namespace, "pod", r.Pod, "answer", answer.Message)
	}
	c.answered(key, written)
	return nil
}

// answered takes over an Eviction with an answer. The watch may have shown meanwhile that it is no request any more: it is not added again.
func (c *Controller) answered(key types.NamespacedName, written *lifecyclev1alpha1.Eviction) {
	r, is := evictions.Of(written)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.table.byName[key] == nil:
	case is:
		c.table.set(key, r, c.Clock.Now())
		c.queue.Add(key)
	default:
		c.table.remove(key)
	}
}

// waits reports whether an Eviction still waits for Berth, also where that is not known. The API server refuses the answers to others.
func (c *Controller) waits(ctx context.Context, key types.NamespacedName, uid types.UID) bool {
	r, is, err := c.read(ctx, key)
	return err != nil || is && r.UID == uid
}

// podOf is the pod of a request, nil where the cluster state does not have it.
func (c *Controller) podOf(r *evictions.Request) *clusterstate.Pod {
	if p := c.State.Pod(r.Namespace, r.Pod); p != nil && p.UID == r.PodUID {
		return p
	}
	return nil
}

// fateOf is what becomes of the pod of a request: what was decided about its workload, unless the pod itself shows more.
func (c *Controller) fateOf(e *entry) evictions.Fate {
	p := c.podOf(&e.Request)
	switch {
	case p == nil && e.seen:
		return evictions.Fate{State: evictions.Gone}
	case p == nil:
		return evictions.Fate{}
	case !p.Live():
		return evictions.Fate{State: evictions.Gone}
	case p.Leaves():
		return evictions.Fate{State: evictions.Released}
	case c.dryRun.Load():
		return evictions.Fate{State: evictions.Refused, Why: "the controller runs with --dry-run"}
	case len(c.Namespaces) > 0 && !slices.Contains(c.Namespaces, e.Namespace):
		return evictions.Fate{State: evictions.Refused, Why: "berth-controller does not move the pods of the namespace"}
	}
	if m, _ := c.State.Resolve(p); m == nil {
		return evictions.Fate{State: evictions.Refused, Why: "no mix governs it"}
	}
	if e.fate == nil {
		return evictions.Fate{State: evictions.Waiting}
	}
	return *e.fate
}

// write writes an answer. The API server takes it only of the active responder, and with the time that it has itself.
func (c *Controller) write(ctx context.Context, r *evictions.Request, a evictions.Answer, now time.Time) (
	*lifecyclev1alpha1.Eviction, error,
) {
	at := metav1.NewTime(now)
	s := lifecycleapply.ResponderStatus().WithName(v1alpha1.EvictionResponder).WithHeartbeatTime(at).WithMessage(a.Message)
	if a.Completes {
		s.WithCompletionTime(at)
	}
	e := lifecycleapply.Eviction(r.Name, r.Namespace).WithUID(r.UID).WithStatus(lifecycleapply.EvictionStatus().WithResponders(s))
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	written, err := c.Client.LifecycleV1alpha1().Evictions(r.Namespace).ApplyStatus(ctx, e,
		metav1.ApplyOptions{FieldManager: FieldOwner, Force: true})
	if err != nil {
		return nil, err
	}
	if written == nil {
		return nil, errors.New("the API server answered with no Eviction")
	}
	return written, nil
}
