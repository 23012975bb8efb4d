// SPDX-License-Identifier: Apache-2.0

package ungate

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/fallback"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/capacitymix/state"
	"berth.dev/berth/plugins/internal/metrics"
)

const (
	// deletesPerSecond bounds how fast pods that waited without success are deleted.
	deletesPerSecond = 20
	// leaderGracePeriod is how long a pod that another process ungated is kept after this one came to lead: nodes may
	// have come meanwhile.
	leaderGracePeriod = 30 * time.Second
	// nominatedWait is how much longer a pod with a nominated node waits at least.
	nominatedWait = time.Minute
	// conflictRetry is when a pod is evaluated again that changed while it was to be deleted.
	conflictRetry = time.Second
	// resyncPeriod is how often all pods are evaluated for what has no event: time that passed, and changes of other mixes.
	resyncPeriod = 5 * time.Second
	// minDeleteRetry is when a deletion that the API server did not answer is retried first.
	minDeleteRetry, maxDeleteRetry = time.Second, time.Minute
)

// spotFallback sends pods with a spot slot to on-demand nodes where no spot nodes
// are created. The type of a pod cannot change after it was ungated, so the pod
// that waited without success is deleted, and its successor, which is gated
// again, goes to on-demand. internal/mix/fallback decides; its facts and effects
// are here.
//
// Its state is lost with the process, except for the marks on the pods that fell
// back: from these a new leader restores that spot was not available.
type spotFallback struct {
	*state.State
	client   clientset.Interface
	policyOf func(*corev1.Pod) *policy.Policy
	clock    clock.PassiveClock
	limiter  *rate.Limiter
	queue    workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu sync.Mutex
	// leadsSince is when this process came to lead; zero: it does not.
	leadsSince time.Time
	pools      map[poolKey]*pool
	waiting    map[types.UID]*waitingPod
}

// poolKey identifies a pool: the workloads of one mix, which share their spot capacity.
type poolKey struct{ namespace, source string }

type pool struct {
	fallback.Pool
	wait time.Duration // of the mix, when it was last evaluated
}

// waitingPod is a pod that is being ungated, or that was limited to spot.
type waitingPod struct {
	name  types.NamespacedName
	pool  poolKey
	group string
	wait  time.Duration
	// since is when it was found to have no node; zero: it was not.
	since time.Time
	// notBefore is when it may be deleted at the earliest.
	notBefore time.Time
	verdict   fallback.Verdict
	// deleting: its deletion was requested. failed: its wait was recorded as a failure.
	deleting, failed bool
}

func (w *waitingPod) pod(uid types.UID) fallback.Pod {
	return fallback.Pod{ID: string(uid), Group: w.group, Wait: w.wait}
}

func newSpotFallback(s *state.State, client clientset.Interface, policyOf func(*corev1.Pod) *policy.Policy) *spotFallback {
	return &spotFallback{
		State:    s,
		client:   client,
		policyOf: policyOf,
		clock:    clock.RealClock{},
		limiter:  rate.NewLimiter(deletesPerSecond, deletesPerSecond),
		queue:    newQueue(minDeleteRetry, maxDeleteRetry),
		pools:    map[poolKey]*pool{},
		waiting:  map[types.UID]*waitingPod{},
	}
}

// run takes over from the process that led before. The caches must be complete.
func (f *spotFallback) run(ctx context.Context) {
	pods, err := f.Pods.List(labels.Everything())
	if err != nil { // reads a cache; cannot fail
		klog.FromContext(ctx).Error(err, "List pods")
	}
	f.mu.Lock()
	f.leadsSince = f.clock.Now()
	f.mu.Unlock()
	for _, pod := range pods {
		if !ledger.Active(pod) {
			continue
		}
		f.restore(pod)
		if waitsForSpot(pod) {
			f.queue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		}
	}
	go f.reconcileAll(ctx)
	go wait.UntilWithContext(ctx, func(context.Context) { f.resync() }, resyncPeriod)
}

// restore restores the state of a pool from the mark of a pod that fell back.
func (f *spotFallback) restore(pod *corev1.Pod) {
	mark, ok := fallback.MarkOf(pod.Annotations, string(pod.UID))
	if !ok {
		return
	}
	if p := f.policyOf(pod); p != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.poolOf(poolKey{pod.Namespace, p.Source}, p.GatedSpotWait).Restore(f.clock.Now(), p.GatedSpotWait, mark)
	}
}

func (f *spotFallback) reconcileAll(ctx context.Context) {
	for {
		key, shutdown := f.queue.Get()
		if shutdown {
			return
		}
		f.reconcile(ctx, key)
		f.queue.Done(key)
	}
}

// waitsForSpot reports whether a pod was limited to spot and has no node yet.
func waitsForSpot(pod *corev1.Pod) bool {
	t, ungated := gate.Opened(pod)
	return ungated && t == capacity.Spot && pod.Spec.NodeName == "" && ledger.Active(pod)
}

// poolOf returns a pool, with the lock held.
func (f *spotFallback) poolOf(key poolKey, spotWait time.Duration) *pool {
	p := f.pools[key]
	if p == nil {
		p = &pool{}
		f.pools[key] = p
	}
	p.wait = spotWait
	return p
}

// chooseType decides which type a pod is limited to that is about to be ungated.
func (f *spotFallback) chooseType(pod *corev1.Pod, group policy.GroupKey, slotType capacity.Type, p *policy.Policy) fallback.Verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slotType != capacity.Spot || !p.BorrowOnDemand {
		f.drop(pod.UID) // its slot may have been another before
		return fallback.Verdict{Type: slotType}
	}
	w := newWaitingPod(pod, group, p)
	if before := f.waiting[pod.UID]; before != nil && before.pool != w.pool {
		f.drop(pod.UID)
	}
	w.verdict = f.poolOf(w.pool, w.wait).Choose(f.clock.Now(), w.pod(pod.UID))
	f.waiting[pod.UID] = w
	return w.verdict
}

func newWaitingPod(pod *corev1.Pod, group policy.GroupKey, p *policy.Policy) *waitingPod {
	return &waitingPod{
		name:  types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
		pool:  poolKey{pod.Namespace, p.Source},
		group: group.ID,
		wait:  p.GatedSpotWait,
	}
}

// drop forgets a pod whose wait had no result, with the lock held.
func (f *spotFallback) drop(uid types.UID) {
	if w := f.waiting[uid]; w != nil {
		f.poolOf(w.pool, w.wait).Gone(string(uid))
		delete(f.waiting, uid)
	}
}

// podUpdated records an active pod as the watch has it.
func (f *spotFallback) podUpdated(pod *corev1.Pod) {
	t, ungated := gate.Opened(pod)
	if !ungated {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.waiting[pod.UID]
	switch {
	case f.leadsSince.IsZero():
	case t == capacity.OnDemand:
		if w != nil && w.verdict.Type == capacity.OnDemand {
			metrics.SpotFallbacks.WithLabelValues(reason(w.verdict)).Inc()
		}
		f.drop(pod.UID)
	case pod.Spec.NodeName != "":
		if w != nil {
			f.poolOf(w.pool, w.wait).Succeeded(f.clock.Now(), w.pod(pod.UID))
			delete(f.waiting, pod.UID)
			f.updateMetrics()
		}
	case w == nil || w.since.IsZero() && unschedulableSince(pod) != nil:
		f.queue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
}

// reason is the label of the metric.
func reason(v fallback.Verdict) string {
	if v.Successor {
		return "successor"
	}
	return "circuit-breaker"
}

// podGone records that a pod is terminating, finished or deleted.
func (f *spotFallback) podGone(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.waiting[uid]; w != nil && w.deleting {
		f.recordFailure(uid, w, true)
	}
	f.drop(uid)
}

// recordFailure records, with the lock held, that a pod waited without success.
// Its deletion is known from the response of the API server or from the watch,
// whichever is first: the type of its successor must not be chosen before.
func (f *spotFallback) recordFailure(uid types.UID, w *waitingPod, deleted bool) {
	if w.failed {
		return
	}
	w.failed = true
	f.poolOf(w.pool, w.wait).Failed(f.clock.Now(), w.pod(uid), deleted)
	if deleted {
		metrics.SpotPodsDeleted.Inc()
	}
	f.updateMetrics()
}

// updateMetrics counts the circuit breakers that are not closed, with the lock held.
func (f *spotFallback) updateMetrics() {
	states, now := map[fallback.State]int{}, f.clock.Now()
	for _, p := range f.pools {
		states[p.State(now, p.wait)]++
	}
	for _, s := range []fallback.State{fallback.Open, fallback.HalfOpen} {
		metrics.SpotCircuitBreakers.WithLabelValues(string(s)).Set(float64(states[s]))
	}
}

// resync evaluates all pods again: the mix of a pod may allow less or more now,
// time passes, and an event during the first evaluation of a pod was missed.
func (f *spotFallback) resync() {
	for uid, name := range f.waitingNames() {
		pod, err := f.Pods.Pods(name.Namespace).Get(name.Name)
		switch {
		case err != nil || pod.UID != uid || !ledger.Active(pod):
			f.podGone(uid)
		case waitsForSpot(pod):
			f.queue.Add(name)
		case !gate.Has(pod):
			f.podUpdated(pod)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	for key, p := range f.pools {
		if p.Idle(now, p.wait) {
			delete(f.pools, key)
		}
	}
	f.updateMetrics()
}

func (f *spotFallback) waitingNames() map[types.UID]types.NamespacedName {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make(map[types.UID]types.NamespacedName, len(f.waiting))
	for uid, w := range f.waiting {
		names[uid] = w.name
	}
	return names
}
