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
	// API server has no cache of events, so that each watch of them costs it a request to etcd for every event of the cluster.
	signalPeriod, signalIdle = time.Second, time.Minute
	// rightsPeriod is the pause before the next review of a right that is missing.
	rightsPeriod = 5 * time.Minute
	// followAfter is how long a pod has waited at least that goes to on-demand because of what was reported about others of its mix and
	// scope, and followLaunch how long after a report that a node is launched for it. Autoscalers limit how many events they record: a
	// node may be on its way for this one, or its launch may have failed as those of the others.
	followAfter, followLaunch = 30 * time.Second, time.Minute
)

// followReports watches what autoscalers report about pods, while pods wait for spot.
func (f *spotFallback) followReports(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if !f.waits() {
			return
		}
		if !f.mayRead(ctx) {
			_ = wait.PollUntilContextCancel(ctx, rightsPeriod, false, func(context.Context) (bool, error) { return true, nil })
			return
		}
		f.watchReports(ctx)
	}, signalPeriod)
}

// waits reports whether a pod that is limited to spot is unschedulable.
func (f *spotFallback) waits() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.waiting {
		if w.verdict.Type == capacity.Spot && !w.since.IsZero() {
			return true
		}
	}
	return false
}

// mayRead reports whether the scheduler has the right to watch events. Without it the wait of a pod ends by time alone.
func (f *spotFallback) mayRead(ctx context.Context) bool {
	logger := klog.FromContext(ctx)
	for _, verb := range []string{"list", "watch"} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: "events"},
		}}
		timed, cancel := context.WithTimeout(ctx, requestTimeout)
		got, err := f.client.AuthorizationV1().SelfSubjectAccessReviews().Create(timed, review, metav1.CreateOptions{})
		cancel()
		if err != nil || !got.Status.Allowed {
			logger.Info("Pods fall back after spotWaitSeconds only: the scheduler may not read the events of autoscalers", "verb", verb, "err", err)
			return false
		}
	}
	return true
}

// watchReports watches until no pod has waited for a while.
func (f *spotFallback) watchReports(ctx context.Context) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	for _, source := range autoscaler.Sources() {
		go f.eventsOf(source).RunWithContext(watching)
	}
	last := f.clock.Now()
	_ = wait.PollUntilContextCancel(ctx, signalPeriod, false, func(context.Context) (done bool, err error) {
		if f.waits() {
			last = f.clock.Now()
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
		if o.At.Before(w.report.At) || o == w.report.Observation {
			return
		}
		failed := w.report.failed
		if o.Report == autoscaler.LaunchFailed {
			failed++
		}
		w.report = report{Observation: o, seen: f.clock.Now(), failed: failed}
		f.queue.Add(name)
	})
}

// report is the last one about a pod. seen is when it came, by the clock of this process, and failed is how many launches have failed.
type report struct {
	autoscaler.Observation
	seen   time.Time
	failed int
}

// reported returns when the wait of a pod is over by what autoscalers reported about it, or about others that may use the same nodes and
// request no more; f.mu is held. by is the autoscaler, "" if none reported that.
func (f *spotFallback) reported(w *waitingPod) (at time.Time, by string) {
	if after, ok := w.report.EndsAfter(w.report.failed); ok {
		return w.report.seen.Add(after), w.report.Autoscaler
	}
	of := f.poolOf(w)
	switch {
	case !of.Reported(f.clock.Now(), w.wait), !covers(w.requests, of.needs):
		return time.Time{}, ""
	case w.report.Report == autoscaler.Launches:
		return w.report.seen.Add(followLaunch), of.by
	}
	return w.since.Add(followAfter), of.by
}

// end is when the wait of a pod is over, and the autoscaler whose report ends it, "" if that is its time.
func (f *spotFallback) end(w *waitingPod, nominated bool) (at time.Time, by string) {
	at = w.deadline(nominated)
	if nominated { // an autoscaler launches a node for it
		return at, ""
	}
	if early, who := f.reported(w); who != "" && early.Before(at) && f.clock.Now().Before(at) {
		if early.Before(w.notBefore) {
			early = w.notBefore
		}
		return early, who
	}
	return at, ""
}
