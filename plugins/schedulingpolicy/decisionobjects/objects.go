// SPDX-License-Identifier: Apache-2.0

// Package decisionobjects keeps the last record of each pod as a SchedulingDecision, for policies that request it.
package decisionobjects

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"berth.dev/berth/internal/policies/decision"
)

const (
	// writesPerSecond and burst bound the load on the API server, however many pods are scheduled. Records that are replaced
	// before their turn are not written.
	writesPerSecond, burst = 20, 100
	// firstRetry and lastRetry bound the pause before an object is written again.
	firstRetry, lastRetry = 200 * time.Millisecond, time.Minute
	// expiryPeriod is how late an object can be deleted.
	expiryPeriod = 10 * time.Second
	// logPeriod bounds the log while the API server is away.
	logPeriod = 30 * time.Second
	// maxWritten bounds what is known of objects that are to be deleted, which cannot be while the API server is away. Beyond it,
	// no object is created.
	maxWritten = 2 * decision.MaxObjects
)

// Objects are the objects of a scheduler that leads. Put can be called before Run, and concurrently.
type Objects struct {
	client Client
	clock  clock.PassiveClock
	store  *decision.Store
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]
	limit  flowcontrol.RateLimiter
	failed rate.Sometimes

	mu sync.Mutex
	// written are the pods that have an object, as far as is known.
	written map[types.NamespacedName]bool
}

// New returns the objects that a client writes.
func New(client Client, clock clock.PassiveClock) *Objects {
	o := &Objects{
		client: client, clock: clock, written: map[types.NamespacedName]bool{},
		failed: rate.Sometimes{Interval: logPeriod},
		limit:  flowcontrol.NewTokenBucketRateLimiter(writesPerSecond, burst),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](firstRetry, lastRetry)),
	}
	o.store = decision.NewObjectStore(clock, o.dropped)
	return o
}

// Put has the record written as the object of its pod. The object is deleted after ttl, or when others take its place.
func (o *Objects) Put(r *decision.Record, ttl time.Duration) {
	o.store.Put(r, ttl)
	o.queue.Add(types.NamespacedName{Namespace: r.Namespace, Name: r.Pod})
}

// dropped has the object of a pod deleted, if there is one.
func (o *Objects) dropped(pod types.NamespacedName) {
	if o.has(pod) {
		o.queue.Add(pod)
	}
}

// Run writes and deletes objects until the context ends. It begins with those of the schedulers before, to delete them in time.
func (o *Objects) Run(ctx context.Context) {
	defer o.queue.ShutDown()
	go wait.UntilWithContext(ctx, func(context.Context) { o.store.DropExpired() }, expiryPeriod)
	if !o.load(ctx) {
		return
	}
	go func() {
		<-ctx.Done()
		o.queue.ShutDown()
	}()
	for {
		pod, ended := o.queue.Get()
		if ended {
			return
		}
		o.next(ctx, pod)
	}
}

// load reads the objects that exist, until it succeeds. It reports false if the context ended before.
func (o *Objects) load(ctx context.Context) bool {
	backoff := wait.Backoff{Duration: firstRetry, Factor: 2, Cap: lastRetry, Steps: 20, Jitter: 0.1}
	return backoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		records, err := o.client.List(ctx)
		if err != nil {
			klog.FromContext(ctx).Error(err, "List SchedulingDecisions")
			return false, nil
		}
		o.restore(records)
		return true, nil
	}) == nil
}

// restore takes over the objects of schedulers before, except of pods that have a newer record.
func (o *Objects) restore(records []*decision.Record) {
	slices.SortFunc(records, func(a, b *decision.Record) int { return a.Time.Compare(b.Time) })
	for _, r := range records {
		pod := types.NamespacedName{Namespace: r.Namespace, Name: r.Pod}
		if !o.wrote(pod) {
			continue
		}
		if len(o.store.Of(r.Namespace, r.Pod)) == 0 {
			o.store.Put(r, r.Expires.Sub(o.clock.Now()))
		}
	}
	o.store.DropExpired()
}

// next writes or deletes the object of a pod.
func (o *Objects) next(ctx context.Context, pod types.NamespacedName) {
	defer o.queue.Done(pod)
	err := o.sync(ctx, pod)
	switch {
	case err == nil || ctx.Err() != nil:
		o.queue.Forget(pod)
	default:
		o.failed.Do(func() { klog.FromContext(ctx).Error(err, "Write SchedulingDecision", "pod", pod) })
		o.queue.AddRateLimited(pod)
	}
}

func (o *Objects) sync(ctx context.Context, pod types.NamespacedName) error {
	if len(o.store.Of(pod.Namespace, pod.Name)) == 0 && !o.has(pod) {
		return nil
	}
	if err := o.limit.Wait(ctx); err != nil {
		return err
	}
	// Before the record is read, and before the request: a record that is dropped from now on has its object deleted, and if the
	// response is lost, the object can exist.
	if !o.wrote(pod) {
		return nil
	}
	records := o.store.Of(pod.Namespace, pod.Name)
	if len(records) == 0 {
		if err := o.client.Delete(ctx, pod); err != nil {
			return err
		}
		o.deleted(pod)
		return nil
	}
	err := o.client.Apply(ctx, decision.Object(records[0]))
	if refused(err) {
		klog.FromContext(ctx).Error(err, "SchedulingDecision is not written", "pod", pod)
		return nil
	}
	return err
}

// refused reports whether the API server would refuse a write again: the namespace ends, or the object is invalid.
func refused(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.HasStatusCause(err, "NamespaceTerminating")
}

func (o *Objects) has(pod types.NamespacedName) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written[pod]
}

// wrote notes that a pod can have an object. It reports false if too many do.
func (o *Objects) wrote(pod types.NamespacedName) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.written) >= maxWritten && !o.written[pod] {
		return false
	}
	o.written[pod] = true
	return true
}

func (o *Objects) deleted(pod types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.written, pod)
}
