// SPDX-License-Identifier: Apache-2.0

package ungate

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"berth.dev/berth/internal/mix/autoscaler"
	"berth.dev/berth/internal/mix/capacity"
)

const (
	// signalPeriod is how often it is checked whether pods wait for spot, and signalIdle for how long none must for the watches to end: the
	// API server has no cache of events, so that each watch of them costs it a read from etcd for every event of the cluster, and its
	// start one for all that there are. Probes come every few minutes.
	signalPeriod, signalIdle = time.Second, 10 * time.Minute
	// rightsPeriod is how often the right to read events is reviewed, and reviewRetry the pause after a review without an answer.
	rightsPeriod, reviewRetry = 5 * time.Minute, 10 * time.Second
)

// followReports watches what autoscalers report about pods, while pods wait for spot.
func (f *spotFallback) followReports(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if !f.waits() {
			return
		}
		pause := rightsPeriod
		switch may, err := f.mayRead(ctx); {
		case err != nil:
			klog.FromContext(ctx).Error(err, "Review the right to read the events of autoscalers")
			pause = reviewRetry
		case may:
			f.watchReports(ctx)
			return
		default:
			klog.FromContext(ctx).Info("Pods fall back after spotWaitSeconds only: the scheduler may not list and watch events")
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}, signalPeriod)
}

// waits reports whether a pod that is limited to spot is unschedulable, and may fall back.
func (f *spotFallback) waits() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.waiting {
		if w.verdict.Type == capacity.Spot && !w.since.IsZero() && !w.failed {
			return true
		}
	}
	return false
}

// mayRead reports whether the scheduler has the right to watch events. Without it the wait of a pod ends by time alone.
func (f *spotFallback) mayRead(ctx context.Context) (bool, error) {
	for _, verb := range []string{"list", "watch"} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: "events"},
		}}
		timed, cancel := context.WithTimeout(ctx, requestTimeout)
		got, err := f.client.AuthorizationV1().SelfSubjectAccessReviews().Create(timed, review, metav1.CreateOptions{})
		cancel()
		if err != nil || !got.Status.Allowed {
			return false, err
		}
	}
	return true, nil
}

// watchReports watches until no pod has waited for a while, or the right to is taken away.
func (f *spotFallback) watchReports(ctx context.Context) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	for _, source := range autoscaler.Sources() {
		go f.eventsOf(source).RunWithContext(watching)
	}
	last, reviewed := f.clock.Now(), f.clock.Now()
	_ = wait.PollUntilContextCancel(ctx, signalPeriod, false, func(ctx context.Context) (done bool, err error) {
		if f.waits() {
			last = f.clock.Now()
		}
		if f.clock.Since(reviewed) >= rightsPeriod {
			reviewed = f.clock.Now()
			if may, err := f.mayRead(ctx); err == nil && !may {
				return true, nil
			}
		}
		return f.clock.Since(last) >= signalIdle, nil
	})
}

// eventsOf delivers the events on pods of a component.
func (f *spotFallback) eventsOf(source string) *cache.Reflector {
	of := fields.Set{"involvedObject.kind": "Pod", "source": source}.AsSelector()
	lw := cache.NewFilteredListWatchFromClient(f.client.CoreV1().RESTClient(), "events", metav1.NamespaceAll,
		func(o *metav1.ListOptions) { o.FieldSelector = of.String() })
	return cache.NewReflectorWithOptions(lw, &corev1.Event{}, reports{f}, cache.ReflectorOptions{Name: "events of " + source})
}

// reports receives events, and keeps none.
type reports struct{ of *spotFallback }

var _ cache.ReflectorStore = reports{}

// Add implements cache.ReflectorStore.
func (r reports) Add(event any) error {
	e, is := event.(*corev1.Event)
	if !is {
		return fmt.Errorf("%T is no event", event)
	}
	r.of.observe(e)
	return nil
}

// Update implements cache.ReflectorStore.
func (r reports) Update(event any) error { return r.Add(event) }

// Delete implements cache.ReflectorStore. What an event reported does not end with it.
func (reports) Delete(any) error { return nil }

// Replace implements cache.ReflectorStore.
func (r reports) Replace(all []any, _ string) error {
	for _, event := range all {
		if err := r.Add(event); err != nil {
			return err
		}
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (reports) Resync() error { return nil }

// observe records what an autoscaler reports about a pod that waits for spot.
func (f *spotFallback) observe(e *corev1.Event) {
	o, ok := autoscaler.Observe(e)
	if !ok {
		return
	}
	name, uid := types.NamespacedName{Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name}, e.InvolvedObject.UID
	pod, err := f.Pods.Pods(name.Namespace).Get(name.Name)
	if err != nil || pod.UID != uid || !waitsForSpot(pod) {
		return
	}
	if p := f.mixOf(pod); p != nil && p.BorrowOnDemand {
		f.recordWait(pod, p) // one that another process ungated
	}
	f.update(uid, func(w *waitingPod) {
		if w.reports.Add(o, f.clock.Now()) {
			f.queue.Add(name)
		}
	})
}

// end is when the wait of a pod is over, and the autoscaler whose report ends it, "" if that is its time.
func (f *spotFallback) end(w *waitingPod, nominated bool) (at time.Time, by string) {
	at = w.deadline(nominated)
	if nominated { // an autoscaler launches a node for it
		return at, ""
	}
	early, by, ok := w.reports.End()
	if early.Before(w.notBefore) {
		early = w.notBefore
	}
	if ok && early.Before(at) && f.clock.Now().Before(at) {
		return early, by
	}
	return at, ""
}
