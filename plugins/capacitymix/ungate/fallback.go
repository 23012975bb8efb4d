// SPDX-License-Identifier: Apache-2.0

package ungate

import (
	"cmp"
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientset "k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"berth.dev/berth/internal/mix/autoscaler"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/fallback"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/capacitymix/state"
	"berth.dev/berth/plugins/internal/admission"
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
	client  clientset.Interface
	mixOf   func(*corev1.Pod) *governing.Mix
	clock   clock.PassiveClock
	label   *gate.Label
	nodes   corelisters.NodeLister
	limiter *rate.Limiter
	units   unitsInFallback
	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]

	// placesMu guards places, of which a search may take some milliseconds. It is never taken with mu held.
	placesMu sync.Mutex
	places   places

	mu sync.Mutex
	// leadsSince is when this process came to lead; zero: it does not.
	leadsSince time.Time
	pools      map[mixKey]map[string]*pool // by the key of the scope
	credits    fallback.Credits
	waiting    map[types.UID]*waitingPod
}

// mixKey identifies a mix.
type mixKey struct{ namespace, source string }

// pool is that of the pods of one mix and one scope, which share their spot capacity.
type pool struct {
	fallback.Pool
	scope scope
	wait  time.Duration // of the mix, when it was last evaluated
	// needs is what the pods requested that failed: one that requests less may have a node where these have none.
	needs corev1.ResourceList
}

// came records that a pod with these requests has a spot node, or that one has room for it.
func (p *pool) came(requests corev1.ResourceList) {
	if covers(requests, p.needs) {
		p.Came()
		p.needs = nil
	}
}

// waitingPod is a pod that is being ungated, or that was limited to spot.
type waitingPod struct {
	name  types.NamespacedName
	mix   mixKey
	scope scope
	group string
	wait  time.Duration
	// requests are those of the pod.
	requests corev1.ResourceList
	// since is when it was found to have no node; zero: it was not.
	since time.Time
	// notBefore is when it may be deleted at the earliest.
	notBefore time.Time
	verdict   fallback.Verdict
	// reports are those of autoscalers, and endedBy the autoscaler whose report ended the wait, "" if it ended by time.
	reports autoscaler.Reports
	endedBy string
	// deleting: its deletion was requested. failed: its wait was recorded as a failure. blocked: a spot node had room for it.
	// withUnit: another pod of its unit waited for long enough, and is the failure of the unit. committed: others of its unit are deleted
	// because it waited.
	deleting, failed, blocked, withUnit, committed bool
}

// decided reports whether a pod falls back whatever is reported about it now: others of its unit do.
func (w *waitingPod) decided() bool { return w.withUnit || w.committed }

func (w *waitingPod) pod(uid types.UID) fallback.Pod {
	return fallback.Pod{ID: string(uid), Group: w.group, Wait: w.wait}
}

func newSpotFallback(
	s *state.State, client clientset.Interface, label *gate.Label, check admission.Check, mixOf func(*corev1.Pod) *governing.Mix,
) *spotFallback {
	return &spotFallback{
		State: s,
		label: label,
		nodes: s.Nodes,
		places: places{
			clock: clock.RealClock{}, pods: s.Pods, nodes: s.Nodes, classifier: s.Classifier, admission: check,
			held: map[types.UID]place{},
		},
		client:  client,
		mixOf:   mixOf,
		clock:   clock.RealClock{},
		limiter: rate.NewLimiter(deletesPerSecond, deletesPerSecond),
		queue:   newQueue(minDeleteRetry, maxDeleteRetry),
		pools:   map[mixKey]map[string]*pool{},
		waiting: map[types.UID]*waitingPod{},
	}
}

// run takes over from the process that led before, and deletes pods until the context ends. The caches must be complete.
func (f *spotFallback) run(ctx context.Context) {
	f.takeOver(ctx)
	go f.reconcileAll(ctx)
	go f.followReports(ctx)
	go wait.UntilWithContext(ctx, func(context.Context) { f.resync() }, resyncPeriod)
}

// takeOver restores what the process that led before wrote to the pods, and queues those that wait.
func (f *spotFallback) takeOver(ctx context.Context) {
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
}

// restore restores the state of a pool from the mark of a pod that fell back.
func (f *spotFallback) restore(pod *corev1.Pod) {
	mark, ok := fallback.MarkOf(pod.Annotations, string(pod.UID))
	if !ok {
		return
	}
	if p := f.mixOf(pod); p != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		of := f.poolOf(f.newWaitingPod(pod, governing.GroupKey{}, p))
		of.Restore(f.clock.Now(), p.GatedSpotWait, mark)
		of.needs = larger(of.needs, requestsOf(pod))
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
	t, ungated := gate.LimitedTo(pod)
	return ungated && t == capacity.Spot && pod.Spec.NodeName == "" && ledger.Active(pod)
}

// poolOf returns the pool of a pod, with the lock held.
func (f *spotFallback) poolOf(w *waitingPod) *pool {
	of := f.pools[w.mix][w.scope.key]
	if of == nil {
		of = &pool{scope: w.scope}
		if f.pools[w.mix] == nil {
			f.pools[w.mix] = map[string]*pool{}
		}
		f.pools[w.mix][w.scope.key] = of
	}
	of.wait = w.wait
	return of
}

// newWaitingPod returns a pod that is not known yet, with the lock held.
func (f *spotFallback) newWaitingPod(pod *corev1.Pod, group governing.GroupKey, p *governing.Mix) *waitingPod {
	w := &waitingPod{
		name:     types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
		mix:      mixKey{pod.Namespace, p.Source},
		scope:    scopeOf(pod, f.label),
		group:    group.Namespace + "/" + group.ID,
		wait:     p.GatedSpotWait,
		requests: requestsOf(pod),
	}
	if scopes := f.pools[w.mix]; scopes[w.scope.key] == nil && len(scopes) >= maxScopes {
		w.scope = sharedScope
	}
	return w
}

// hasPlace reports whether a spot node has room for a pod that is limited to spot. hold keeps the place for it.
func (f *spotFallback) hasPlace(pod *corev1.Pod, w *waitingPod, hold bool) bool {
	f.placesMu.Lock()
	defer f.placesMu.Unlock()
	return f.places.find(pod, w.group+" "+w.scope.key, hold)
}

func (f *spotFallback) releasePlace(uid types.UID) {
	f.placesMu.Lock()
	defer f.placesMu.Unlock()
	f.places.release(uid)
}

// doubted reports whether a pod would be limited to on-demand now because spot nodes did not come.
func (f *spotFallback) doubted(w *waitingPod) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, of := f.clock.Now(), f.pools[w.mix][w.scope.key]
	return of != nil && of.State(now, w.wait) != fallback.Closed || f.credits.Missed(now, w.group)
}

// chooseType decides which type a pod is limited to that is about to be ungated. onSpot returns the pod as it is if that
// is spot, nil if it gets no domain there.
func (f *spotFallback) chooseType(
	pod *corev1.Pod, group governing.GroupKey, slotType capacity.Type, p *governing.Mix, onSpot func() *corev1.Pod,
) fallback.Verdict {
	if slotType != capacity.Spot || !p.BorrowOnDemand {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.drop(pod.UID) // its slot may have been another before
		return fallback.Verdict{Type: slotType}
	}
	f.mu.Lock()
	w := f.newWaitingPod(pod, group, p)
	f.mu.Unlock()
	place := false
	if f.doubted(w) {
		spot := onSpot()
		place = spot != nil && f.hasPlace(spot, w, true)
	}
	verdict := f.choose(pod.UID, w, place)
	if place && verdict.Type != capacity.Spot {
		f.releasePlace(pod.UID)
	}
	return verdict
}

// choose decides which type a pod is limited to, and keeps it among those that wait. place: a spot node has room for it.
func (f *spotFallback) choose(uid types.UID, w *waitingPod, place bool) fallback.Verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	if before := f.waiting[uid]; before != nil && (before.mix != w.mix || before.scope.key != w.scope.key) {
		f.drop(uid)
	}
	of := f.poolOf(w)
	if place {
		of.came(w.requests)
	}
	now := f.clock.Now()
	// What an autoscaler reports is about what the pods requested: one that requests less may get a node.
	place = place || of.Reported(now, w.wait) && !covers(w.requests, of.needs)
	w.verdict = of.Choose(now, w.pod(uid), &f.credits, place)
	f.waiting[uid] = w
	return w.verdict
}

// succeeded records, with the lock held, that a pod that was limited to spot is bound: spot came for all pods of its mix that may use
// the node.
func (f *spotFallback) succeeded(pod *corev1.Pod, w *waitingPod) {
	own := f.poolOf(w)
	own.came(w.requests)
	f.drop(pod.UID)
	node, err := f.nodes.Get(pod.Spec.NodeName)
	if err != nil {
		return
	}
	for _, of := range f.pools[w.mix] {
		if of.scope.siblings {
			continue
		}
		if matches, err := of.scope.nodes.Match(node); err == nil && matches {
			of.came(w.requests)
		}
	}
}

// drop forgets a pod that waits no more, with the lock held.
func (f *spotFallback) drop(uid types.UID) {
	if w := f.waiting[uid]; w != nil {
		f.poolOf(w).Gone(string(uid))
		f.credits.Gone(string(uid))
		delete(f.waiting, uid)
	}
}

// podUpdated records an active pod as the watch has it.
func (f *spotFallback) podUpdated(pod *corev1.Pod) {
	t, ungated := gate.LimitedTo(pod)
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
			f.succeeded(pod, w)
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

// cause is the label of the metric.
func cause(endedBy string) string { return strings.ToLower(cmp.Or(endedBy, "wait")) }

// podGone records that a pod is terminating, finished or deleted.
func (f *spotFallback) podGone(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.waiting[uid]; w != nil && w.deleting {
		f.recordFailure(uid, w, true)
	}
	f.drop(uid)
}

// held forgets a pod whose gate stays although its type was chosen.
func (f *spotFallback) held(uid types.UID) {
	f.releasePlace(uid)
	f.mu.Lock()
	defer f.mu.Unlock()
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
	if !w.withUnit {
		now := f.clock.Now()
		if until, ok := f.judge(now, f.poolOf(w), uid, w); ok && deleted {
			f.credits.Add(now, w.group, until, w.blocked)
		}
	}
	if deleted {
		metrics.SpotPodsDeleted.WithLabelValues(cause(w.endedBy)).Inc()
	}
	f.updateMetrics()
}

// judge has the pool of a pod count its wait, with the lock held.
func (f *spotFallback) judge(now time.Time, of *pool, uid types.UID, w *waitingPod) (until time.Time, ok bool) {
	if w.blocked {
		return of.Blocked(now, w.pod(uid))
	}
	before := of.Mark().Failures
	until, ok = of.Failed(now, w.pod(uid), w.endedBy != "")
	switch after := of.Mark().Failures; {
	case after == 1:
		of.needs = w.requests
	case w.endedBy != "": // of which there may be many within seconds, of large and of small pods
		of.needs = smaller(of.needs, w.requests)
	case after > before:
		of.needs = larger(of.needs, w.requests)
	}
	return until, ok
}

// updateMetrics counts the circuit breakers that are not closed, with the lock held.
func (f *spotFallback) updateMetrics() {
	states, now := map[fallback.State]int{}, f.clock.Now()
	for _, scopes := range f.pools {
		for _, p := range scopes {
			states[p.State(now, p.wait)]++
		}
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
	f.units.prune(f.Ledger.Gone)
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	f.credits.Expire(now)
	for mix, scopes := range f.pools {
		maps.DeleteFunc(scopes, func(_ string, p *pool) bool { return p.Idle(now, p.wait) })
		if len(scopes) == 0 {
			delete(f.pools, mix)
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
