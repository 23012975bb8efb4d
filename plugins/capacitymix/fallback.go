// SPDX-License-Identifier: Apache-2.0

package capacitymix

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
)

const (
	// deletesPerSecond bounds how fast pods that waited without success are deleted.
	deletesPerSecond = 20
	// leaderGrace is how long a pod that was opened by another process is left alone after this one came to lead: nodes
	// may have come meanwhile.
	leaderGrace = 30 * time.Second
	// nominatedWait is how much longer a pod with a nominated node waits at least.
	nominatedWait = time.Minute
	// changedAgain is when a pod is looked at again that changed while it was to be deleted.
	changedAgain = time.Second
	// tendAgain is how often it is made up for what no event says: what time and other mixes change.
	tendAgain = 5 * time.Second
	// failuresFirst is when a deletion that the API server did not answer is tried again.
	failuresFirst, failuresMost = time.Second, time.Minute
)

// fallbacks sends pods with a spot slot to on-demand nodes where spot nodes do
// not come. The type of a pod cannot change after its gate was opened, so the
// pod that waited without success is deleted, and its successor, which has a gate again,
// goes to on-demand. internal/mix/fallback decides; here are its facts and effects.
//
// What it knows is lost with the process, but for the marks on the pods that
// fell back: from these a new leader learns that spot was not available.
type fallbacks struct {
	*shared
	client   clientset.Interface
	policyOf func(*corev1.Pod) *policy.Policy
	clock    clock.PassiveClock
	limiter  *rate.Limiter
	queue    workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu sync.Mutex
	// ledSince is when this process came to lead; zero: it does not.
	ledSince time.Time
	pools    map[poolKey]*pool
	waiting  map[types.UID]*waiting
}

// poolKey is whose spot nodes come or do not come together: the workloads of one mix.
type poolKey struct{ namespace, source string }

type pool struct {
	fallback.Pool
	wait time.Duration // of the mix, when it was last asked about
}

// waiting is a pod whose gate is being opened, or was opened to spot.
type waiting struct {
	name  types.NamespacedName
	pool  poolKey
	group string
	wait  time.Duration
	// since is when it was found to have no node; zero: it was not.
	since time.Time
	// notBefore is when it may be deleted at the earliest.
	notBefore time.Time
	verdict   fallback.Verdict
	// inVain: its deletion was requested. over: it was deleted, or is not to be, and counted.
	inVain, over bool
}

func (w *waiting) asPod(uid types.UID) fallback.Pod {
	return fallback.Pod{ID: string(uid), Group: w.group, Wait: w.wait}
}

func newFallbacks(sh *shared, client clientset.Interface, policyOf func(*corev1.Pod) *policy.Policy) *fallbacks {
	return &fallbacks{
		shared: sh, client: client, policyOf: policyOf, clock: clock.RealClock{},
		limiter: rate.NewLimiter(deletesPerSecond, deletesPerSecond),
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](failuresFirst, failuresMost)),
		pools:   map[poolKey]*pool{}, waiting: map[types.UID]*waiting{},
	}
}

// lead takes over from the process that led before. The caches must be complete.
func (f *fallbacks) lead(ctx context.Context) {
	pods, err := f.pods.List(labels.Everything())
	if err != nil { // reads a cache; cannot fail
		klog.FromContext(ctx).Error(err, "List pods")
	}
	f.mu.Lock()
	f.ledSince = f.clock.Now()
	f.mu.Unlock()
	for _, pod := range pods {
		if !live(pod) {
			continue
		}
		if mark, ok := fallback.MarkOf(pod.Annotations, string(pod.UID)); ok {
			if p := f.policyOf(pod); p != nil {
				f.mu.Lock()
				f.poolOf(poolKey{pod.Namespace, p.Source}, p.GatedSpotWait).Restore(f.clock.Now(), p.GatedSpotWait, mark)
				f.mu.Unlock()
			}
		}
		if waitsForSpot(pod) {
			f.queue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		}
	}
	go f.work(ctx)
	go wait.UntilWithContext(ctx, func(context.Context) { f.tend() }, tendAgain)
}

func (f *fallbacks) work(ctx context.Context) {
	for {
		key, over := f.queue.Get()
		if over {
			return
		}
		f.look(ctx, key)
		f.queue.Done(key)
	}
}

// waitsForSpot reports whether a pod was limited to spot and has no node yet.
func waitsForSpot(pod *corev1.Pod) bool {
	t, opened := gate.Opened(pod)
	return opened && t == capacity.Spot && pod.Spec.NodeName == "" && live(pod)
}

// poolOf returns a pool, with the lock held.
func (f *fallbacks) poolOf(key poolKey, spotWait time.Duration) *pool {
	p := f.pools[key]
	if p == nil {
		p = &pool{}
		f.pools[key] = p
	}
	p.wait = spotWait
	return p
}

// choose decides which type a pod is limited to whose gate is about to be opened.
func (f *fallbacks) choose(pod *corev1.Pod, slotType capacity.Type, p *policy.Policy) fallback.Verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slotType != capacity.Spot || !p.BorrowOnDemand {
		f.drop(pod.UID) // it may have been asked about when its slot was another
		return fallback.Verdict{Type: slotType}
	}
	group, _ := policy.GroupOf(pod, p)
	w := &waiting{
		name: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
		pool: poolKey{pod.Namespace, p.Source}, group: group.ID, wait: p.GatedSpotWait,
	}
	if before := f.waiting[pod.UID]; before != nil && before.pool != w.pool {
		f.drop(pod.UID)
	}
	w.verdict = f.poolOf(w.pool, w.wait).Choose(f.clock.Now(), w.asPod(pod.UID))
	f.waiting[pod.UID] = w
	return w.verdict
}

// drop forgets a pod about which nothing was found out, with the lock held.
func (f *fallbacks) drop(uid types.UID) {
	if w := f.waiting[uid]; w != nil {
		f.poolOf(w.pool, w.wait).Gone(string(uid))
		delete(f.waiting, uid)
	}
}

// see takes over what the API server says of a live pod.
func (f *fallbacks) see(pod *corev1.Pod) {
	t, opened := gate.Opened(pod)
	if !opened {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.waiting[pod.UID]
	switch {
	case f.ledSince.IsZero():
	case t == capacity.OnDemand:
		if w != nil && w.verdict.Type == capacity.OnDemand {
			spotFallbacks.WithLabelValues(because(w.verdict)).Inc()
		}
		f.drop(pod.UID)
	case pod.Spec.NodeName != "":
		if w != nil {
			f.poolOf(w.pool, w.wait).Succeeded(f.clock.Now(), w.asPod(pod.UID))
			delete(f.waiting, pod.UID)
			f.count()
		}
	case w == nil || w.since.IsZero() && unschedulableSince(pod) != nil:
		f.queue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
}

// recheck looks at a pod again whose mix may be another now.
func (f *fallbacks) recheck(pod *corev1.Pod) {
	if waitsForSpot(pod) {
		f.see(pod)
	}
}

func because(v fallback.Verdict) string {
	if v.Successor {
		return "successor"
	}
	return "circuit-breaker"
}

// gone notes that a pod is terminating, finished or deleted.
func (f *fallbacks) gone(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.waiting[uid]; w != nil && w.inVain {
		f.failed(uid, w, true)
	}
	f.drop(uid)
}

// failed notes, with the lock held, that a pod waited without success. That it was
// deleted is said by the answer of the API server or by the watch, whichever is
// first: its successor must not be decided about before.
func (f *fallbacks) failed(uid types.UID, w *waiting, deleted bool) {
	if w.over {
		return
	}
	w.over = true
	f.poolOf(w.pool, w.wait).Failed(f.clock.Now(), w.asPod(uid), deleted)
	if deleted {
		spotPodsDeleted.Inc()
	}
	f.count()
}

// count shows how many circuit breakers are not closed, with the lock held.
func (f *fallbacks) count() {
	states, now := map[fallback.State]int{}, f.clock.Now()
	for _, p := range f.pools {
		states[p.State(now, p.wait)]++
	}
	for _, s := range []fallback.State{fallback.Open, fallback.HalfOpen} {
		spotBreakers.WithLabelValues(string(s)).Set(float64(states[s]))
	}
}

// tend looks at everything that is known again: the mix of a pod may allow less
// or more now, time passes, and what happened to a pod while it was looked at for
// the first time was missed.
func (f *fallbacks) tend() {
	for uid, name := range f.known() {
		pod, err := f.pods.Pods(name.Namespace).Get(name.Name)
		switch {
		case err != nil || pod.UID != uid || !live(pod):
			f.gone(uid)
		case waitsForSpot(pod):
			f.queue.Add(name)
		case !gate.Has(pod):
			f.see(pod)
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
	f.count()
}

// known are the pods that something is known about.
func (f *fallbacks) known() map[types.UID]types.NamespacedName {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make(map[types.UID]types.NamespacedName, len(f.waiting))
	for uid, w := range f.waiting {
		names[uid] = w.name
	}
	return names
}
