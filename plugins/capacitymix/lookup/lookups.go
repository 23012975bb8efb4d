// SPDX-License-Identifier: Apache-2.0

// Package lookup finds the owners and mixes of pods: from the caches, and for new
// workloads by live look-ups, which happen beside the scheduling cycle.
package lookup

import (
	"context"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/wakeup"
	"berth.dev/berth/plugins/internal/metrics"
	"berth.dev/berth/plugins/internal/perscheduler"
)

// Lookups looks up what the caches may not have yet of new workloads: it reads
// their owners, lists the mixes of their namespace, and waits until the watch has
// delivered these. The watch stays the only source of mixes: the result of a list
// could outlive a mix that is deleted in between.
//
// The pods of one namespace share their look-ups: there is one round at a time,
// and it completes the pods that were enqueued before it began. Namespaces have
// their rounds in parallel and pause for as long as a round takes, so that
// made-up owners in one do not delay another.
type Lookups struct {
	o     Options
	ctx   context.Context //nolint:containedctx // of the scheduler: look-ups end with it, not with the call that requested them
	slots chan struct{}   // one is taken while a round reads

	owners  *ownerCache // of completed look-ups
	covered *lru.Cache  // by namespace: the resource version up to which its pods are completed

	mu      sync.Mutex
	pending map[string]map[types.UID]*corev1.Pod // by namespace; an entry without pods: a round is in progress
	watched map[types.NamespacedName]Mix         // what the watch has delivered
	deleted map[string]map[types.UID]struct{}    // by namespace: mixes whose deletion was delivered during a round
}

// Options are what Lookups needs.
type Options struct {
	Owners     *Owners
	Classifier *capacity.Classifier
	// Resolver resolves the mixes of pods, whatever their profile.
	Resolver *governing.Resolver
	// ReadOwner reads an owner from the API server.
	ReadOwner func(ctx context.Context, namespace string, ref *metav1.OwnerReference) (metav1.Object, error)
	// ListMixes lists the mixes of a namespace; nil where there is no API server, in unit tests.
	ListMixes func(ctx context.Context, namespace string) ([]Mix, error)
	// Activate schedules pods whose look-up is completed.
	Activate wakeup.Activate
}

// Mix is the identity of a mix in a list.
type Mix struct {
	Name       string
	UID        types.UID
	Generation int64
}

const (
	// maxCompletedOwners is how many owners of a namespace are remembered as completed. A pod of one that was evicted is
	// enqueued again, unless it was covered or tried.
	maxCompletedOwners = 256
	// parallelRounds is how many namespaces read at the same time.
	parallelRounds = 8
	// ownersPerRound is how many owners a round reads. The pods of others wait for the next one.
	ownersPerRound = 32
	// requestTimeout bounds each of the two parts of a round, readTimeout the read of an owner. A pod about which nothing
	// can be read is placed as the caches have it.
	requestTimeout, readTimeout = 5 * time.Second, 2 * time.Second
	// maxPause bounds the pause after a round.
	maxPause = time.Second
	// watchTimeout bounds the wait for a mix that exists and that the watch has not delivered:
	// the longest pause of an informer that lost its watch.
	watchTimeout  = 30 * time.Second
	watchInterval = 10 * time.Millisecond
)

// New returns Lookups that end with the context.
func New(ctx context.Context, o Options) *Lookups {
	return &Lookups{
		o:       o,
		ctx:     ctx,
		slots:   make(chan struct{}, parallelRounds),
		owners:  newOwnerCache(maxCompletedOwners),
		covered: lru.New(maxNamespaces),
		pending: map[string]map[types.UID]*corev1.Pod{},
		watched: map[types.NamespacedName]Mix{},
		deleted: map[string]map[types.UID]struct{}{},
	}
}

// completed reports whether the look-up of an owner is completed.
func (l *Lookups) completed(namespace string, owner types.UID) bool {
	_, known := l.owners.get(namespace, owner)
	return known
}

// covers reports whether a pod existed before the last round of its namespace
// began, whatever its owner: the mixes that were created before it are known.
func (l *Lookups) covers(pod *corev1.Pod) bool {
	covered, known := l.covered.Get(pod.Namespace)
	if !known {
		return false
	}
	version, ok := versionOf(pod)
	return ok && version <= covered.(uint64)
}

// versionOf is a pod's resource version. Those of pods can be compared.
func versionOf(pod *corev1.Pod) (uint64, bool) {
	version, err := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	return version, err == nil
}

// Enqueue has the next round of a namespace complete a pod, which is activated
// then. It does not block.
func (l *Lookups) Enqueue(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pods, inProgress := l.pending[pod.Namespace]
	if pods == nil {
		pods = map[types.UID]*corev1.Pod{}
		l.pending[pod.Namespace] = pods
	}
	pods[pod.UID] = pod
	if !inProgress {
		go l.run(pod.Namespace)
	}
}

// run makes rounds for a namespace until no pod is pending.
func (l *Lookups) run(namespace string) {
	for {
		pods := l.dequeue(namespace)
		if pods == nil {
			return
		}
		select {
		case l.slots <- struct{}{}:
		case <-l.ctx.Done():
			return
		}
		began := time.Now()
		mixes, listed := l.listMixes(namespace)
		remaining := l.readOwners(namespace, pods)
		took := time.Since(began)
		<-l.slots
		if listed {
			l.waitForWatch(namespace, mixes)
		}
		l.complete(namespace, pods, remaining)
		select {
		case <-time.After(min(took, maxPause)):
		case <-l.ctx.Done():
			return
		}
	}
}

// dequeue returns the pending pods, nil if there are none.
func (l *Lookups) dequeue(namespace string) map[types.UID]*corev1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.deleted, namespace)
	pods := l.pending[namespace]
	if len(pods) == 0 {
		delete(l.pending, namespace)
		return nil
	}
	l.pending[namespace] = nil
	return pods
}

// complete activates the pods of a round; those that remain wait for the next one.
func (l *Lookups) complete(namespace string, pods, remaining map[types.UID]*corev1.Pod) {
	var covered uint64
	completed := make([]*corev1.Pod, 0, len(pods))
	for uid, pod := range pods {
		if version, ok := versionOf(pod); ok {
			covered = max(covered, version)
		}
		if remaining[uid] == nil {
			l.owners.set(namespace, metav1.GetControllerOfNoCopy(pod).UID, nil)
			completed = append(completed, pod)
		}
	}
	if before, known := l.covered.Get(namespace); !known || before.(uint64) < covered {
		l.covered.Add(namespace, covered)
	}
	for _, pod := range remaining {
		l.Enqueue(pod)
	}
	l.o.Activate(klog.FromContext(l.ctx), perscheduler.Pods(completed...))
}

// readOwners reads the owners of pods that the caches do not have, and returns
// the pods whose owners were too many for this round.
func (l *Lookups) readOwners(namespace string, pods map[types.UID]*corev1.Pod) (remaining map[types.UID]*corev1.Pod) {
	ctx, cancel := context.WithTimeout(l.ctx, requestTimeout)
	defer cancel()
	reads := 0
	for uid, pod := range pods {
		for ref := l.o.Owners.unknown(pod); ref != nil; ref = l.o.Owners.unknown(pod) {
			if reads == ownersPerRound {
				if remaining == nil {
					remaining = map[types.UID]*corev1.Pod{}
				}
				remaining[uid] = pod
				break
			}
			reads++
			l.readOwner(ctx, namespace, ref)
		}
	}
	return remaining
}

func (l *Lookups) readOwner(ctx context.Context, namespace string, ref *metav1.OwnerReference) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	owner, err := l.o.ReadOwner(ctx, namespace, ref)
	metrics.OwnerReads.Inc()
	l.o.Owners.store(namespace, ref, owner, err)
}

// listMixes lists the mixes of a namespace; ok is false if that failed.
func (l *Lookups) listMixes(namespace string) (mixes []Mix, ok bool) {
	if l.o.ListMixes == nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(l.ctx, requestTimeout)
	defer cancel()
	mixes, err := l.o.ListMixes(ctx, namespace)
	metrics.MixLists.Inc()
	if err != nil {
		klog.FromContext(l.ctx).V(2).Info("Cannot list the CapacityMixes of a namespace: new workloads are placed by those that are known",
			"namespace", namespace, "err", err)
	}
	return mixes, err == nil
}

// waitForWatch returns when the watch has delivered every mix of a list, or after watchTimeout.
func (l *Lookups) waitForWatch(namespace string, mixes []Mix) {
	err := wait.PollUntilContextTimeout(l.ctx, watchInterval, watchTimeout, true,
		func(context.Context) (bool, error) { return l.delivered(namespace, mixes), nil })
	if err != nil {
		klog.FromContext(l.ctx).Error(nil, "The watch of CapacityMixes is behind: new workloads are placed by those that are known",
			"namespace", namespace, "after", watchTimeout)
	}
}

// delivered reports whether the watch has delivered every mix of a list.
func (l *Lookups) delivered(namespace string, mixes []Mix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range mixes {
		watched := l.watched[types.NamespacedName{Namespace: namespace, Name: m.Name}]
		if _, deleted := l.deleted[namespace][m.UID]; !deleted && (watched.UID != m.UID || watched.Generation < m.Generation) {
			return false
		}
	}
	return true
}

// MixUpdated records a mix that the watch delivered, after it took effect.
func (l *Lookups) MixUpdated(cm *v1alpha1.CapacityMix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched[types.NamespacedName{Namespace: cm.Namespace, Name: cm.Name}] = Mix{Name: cm.Name, UID: cm.UID, Generation: cm.Generation}
}

// MixDeleted records a mix whose deletion the watch delivered. A round may have listed it before.
func (l *Lookups) MixDeleted(cm *v1alpha1.CapacityMix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.watched, types.NamespacedName{Namespace: cm.Namespace, Name: cm.Name})
	if _, inProgress := l.pending[cm.Namespace]; inProgress {
		if l.deleted[cm.Namespace] == nil {
			l.deleted[cm.Namespace] = map[types.UID]struct{}{}
		}
		l.deleted[cm.Namespace][cm.UID] = struct{}{}
	}
}
