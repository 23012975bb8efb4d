// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/controllerref"
)

// inquiry finds out what the caches may not have yet of new workloads: it reads
// their owners, lists the mixes of their namespace, and waits until the watch has
// brought these. The watch stays the only source of mixes: an answer that was put
// beside it could outlive a mix that is deleted in between.
//
// The pods of one namespace share their questions: there is one round at a time,
// and it answers for the pods that were held before it began. Namespaces have
// their rounds beside one another and pause for as long as a round takes, so that
// what one makes up does not delay another.
type inquiry struct {
	// list returns the mixes of a namespace; nil where there is no API server, in unit tests.
	list        func(ctx context.Context, namespace string) ([]listed, error)
	read        func(ctx context.Context, namespace string, ref *metav1.OwnerReference) (metav1.Object, error)
	controllers *controllers
	activate    func(klog.Logger, map[string]*corev1.Pod)
	ctx         context.Context //nolint:containedctx // of the scheduler: questions end with it, not with the call that began them
	rounds      chan struct{}   // one is put here while a round reads

	owners  *ownerMemory // that were answered for
	covered *lru.Cache   // by namespace: the resource version up to which its pods were answered for

	mu      sync.Mutex
	waiting map[string]map[types.UID]*corev1.Pod // by namespace; an entry without pods: a round is under way
	heard   map[types.NamespacedName]listed      // what the watch has brought
	gone    map[string]map[types.UID]struct{}    // by namespace: mixes that the watch removed during a round
}

// listed is what is kept of a mix in a list.
type listed struct {
	name       string
	uid        types.UID
	generation int64
}

const (
	// answeredOwners is how many owners are remembered in a namespace. A pod of one that is forgotten is held again, unless
	// it was covered or tried.
	answeredOwners = 256
	// roundsAtOnce is how many namespaces read at the same time.
	roundsAtOnce = 8
	// ownersPerRound is how many owners a round reads. The pods of others wait for the next one.
	ownersPerRound = 32
	// askTimeout bounds each of the two parts of a round, readTimeout the read of an owner. A pod about which nothing can
	// be found out is placed as the caches have it.
	askTimeout, readTimeout = 5 * time.Second, 2 * time.Second
	// roundPause bounds the pause after a round.
	roundPause = time.Second
	// hearTimeout bounds the wait for a mix that exists and that the watch has not brought:
	// the longest pause of an informer that lost its watch.
	hearTimeout = 30 * time.Second
	hearPoll    = 10 * time.Millisecond
)

func newInquiry(ctx context.Context, controllers *controllers, client clientset.Interface, activate func(klog.Logger, map[string]*corev1.Pod)) *inquiry {
	return &inquiry{
		read: func(ctx context.Context, namespace string, ref *metav1.OwnerReference) (metav1.Object, error) {
			return controllerref.Read(ctx, client, namespace, ref)
		},
		controllers: controllers,
		activate:    activate,
		ctx:         ctx,
		rounds:      make(chan struct{}, roundsAtOnce),
		owners:      newOwnerMemory(answeredOwners),
		covered:     lru.New(rememberedNamespaces),
		waiting:     map[string]map[types.UID]*corev1.Pod{},
		heard:       map[types.NamespacedName]listed{},
		gone:        map[string]map[types.UID]struct{}{},
	}
}

// answered reports whether a round has answered for an owner.
func (i *inquiry) answered(namespace string, owner types.UID) bool {
	_, known := i.owners.get(namespace, owner)
	return known
}

// covers reports whether a pod was there before the last round of its namespace
// began, whatever its owner: the mixes that were created before it are known.
func (i *inquiry) covers(pod *corev1.Pod) bool {
	covered, known := i.covered.Get(pod.Namespace)
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

// hold keeps a pod for the next round of its namespace.
func (i *inquiry) hold(pod *corev1.Pod) {
	i.mu.Lock()
	defer i.mu.Unlock()
	pods, underway := i.waiting[pod.Namespace]
	if pods == nil {
		pods = map[types.UID]*corev1.Pod{}
		i.waiting[pod.Namespace] = pods
	}
	pods[pod.UID] = pod
	if !underway {
		go i.serve(pod.Namespace)
	}
}

// serve makes rounds for a namespace until no pod waits.
func (i *inquiry) serve(namespace string) {
	for {
		pods := i.take(namespace)
		if pods == nil {
			return
		}
		select {
		case i.rounds <- struct{}{}:
		case <-i.ctx.Done():
			return
		}
		began := time.Now()
		mixes, complete := i.listMixes(namespace)
		left := i.readOwners(namespace, pods)
		took := time.Since(began)
		<-i.rounds
		if complete {
			i.hearAll(namespace, mixes)
		}
		i.release(namespace, pods, left)
		select {
		case <-time.After(min(took, roundPause)):
		case <-i.ctx.Done():
			return
		}
	}
}

// take returns the pods that wait, nil if there are none.
func (i *inquiry) take(namespace string) map[types.UID]*corev1.Pod {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.gone, namespace)
	pods := i.waiting[namespace]
	if len(pods) == 0 {
		delete(i.waiting, namespace)
		return nil
	}
	i.waiting[namespace] = nil
	return pods
}

// release has the pods tried that were answered for; those that are left wait for the next round.
func (i *inquiry) release(namespace string, pods, left map[types.UID]*corev1.Pod) {
	var covered uint64
	byName := make(map[string]*corev1.Pod, len(pods))
	for uid, pod := range pods {
		if version, ok := versionOf(pod); ok {
			covered = max(covered, version)
		}
		if left[uid] == nil {
			i.owners.set(namespace, metav1.GetControllerOfNoCopy(pod).UID, nil)
			byName[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	if before, known := i.covered.Get(namespace); !known || before.(uint64) < covered {
		i.covered.Add(namespace, covered)
	}
	for _, pod := range left {
		i.hold(pod)
	}
	i.activate(klog.FromContext(i.ctx), byName)
}

// readOwners reads the owners of pods that the caches do not have, and returns
// the pods whose owners were too many for this round.
func (i *inquiry) readOwners(namespace string, pods map[types.UID]*corev1.Pod) (left map[types.UID]*corev1.Pod) {
	ctx, cancel := context.WithTimeout(i.ctx, askTimeout)
	defer cancel()
	reads := 0
	for uid, pod := range pods {
		for ref := i.controllers.missing(pod); ref != nil; ref = i.controllers.missing(pod) {
			if reads == ownersPerRound {
				if left == nil {
					left = map[types.UID]*corev1.Pod{}
				}
				left[uid] = pod
				break
			}
			reads++
			i.readOwner(ctx, namespace, ref)
		}
	}
	return left
}

func (i *inquiry) readOwner(ctx context.Context, namespace string, ref *metav1.OwnerReference) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	owner, err := i.read(ctx, namespace, ref)
	ownerReads.Inc()
	i.controllers.remember(namespace, ref, owner, err)
}

// listMixes lists the mixes of a namespace; complete is false if that failed.
func (i *inquiry) listMixes(namespace string) (mixes []listed, complete bool) {
	if i.list == nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(i.ctx, askTimeout)
	defer cancel()
	mixes, err := i.list(ctx, namespace)
	mixInquiries.Inc()
	if err != nil {
		klog.FromContext(i.ctx).V(2).Info("Cannot list the CapacityMixes of a namespace: new workloads are placed by those that are known", "namespace", namespace, "err", err)
	}
	return mixes, err == nil
}

// hearAll returns when the watch has brought every mix of a list, or when it
// makes no sense to wait any longer.
func (i *inquiry) hearAll(namespace string, mixes []listed) {
	err := wait.PollUntilContextTimeout(i.ctx, hearPoll, hearTimeout, true, func(context.Context) (bool, error) { return i.hasHeard(namespace, mixes), nil })
	if err != nil {
		klog.FromContext(i.ctx).Error(nil, "The watch of CapacityMixes is behind: new workloads are placed by those that are known", "namespace", namespace, "after", hearTimeout)
	}
}

func (i *inquiry) hasHeard(namespace string, mixes []listed) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, m := range mixes {
		heard := i.heard[types.NamespacedName{Namespace: namespace, Name: m.name}]
		if _, gone := i.gone[namespace][m.uid]; !gone && (heard.uid != m.uid || heard.generation < m.generation) {
			return false
		}
	}
	return true
}

// hear notes what the watch brought, after it took effect.
func (i *inquiry) hear(cm *v1alpha1.CapacityMix) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.heard[types.NamespacedName{Namespace: cm.Namespace, Name: cm.Name}] = listed{name: cm.Name, uid: cm.UID, generation: cm.Generation}
}

// forget notes a mix that the watch removed. A round may have listed it before.
func (i *inquiry) forget(cm *v1alpha1.CapacityMix) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.heard, types.NamespacedName{Namespace: cm.Namespace, Name: cm.Name})
	if _, underway := i.waiting[cm.Namespace]; underway {
		if i.gone[cm.Namespace] == nil {
			i.gone[cm.Namespace] = map[types.UID]struct{}{}
		}
		i.gone[cm.Namespace][cm.UID] = struct{}{}
	}
}
