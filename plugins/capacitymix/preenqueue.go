// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/lru"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/gates"
	"berth.dev/berth/internal/policy"
)

// ErrReasonAsking stands in the log while a pod is held back by PreEnqueue. The
// pod's own condition does not change: nothing is written for that time.
const ErrReasonAsking = "asking whether a CapacityMix governs this new workload"

// PreEnqueue holds back the first pods of a workload that nothing governs until
// it is certain that nothing does (docs/decisions/0005). It is called under the
// lock of the scheduling queue and reads caches only.
func (pl *CapacityMix) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if gates.Has(pod) {
		return nil // it is asked for when it is given its slot
	}
	if !pl.uncertain(pod) {
		return nil
	}
	pl.inquiry.hold(pod)
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, ErrReasonAsking)
}

// uncertain reports whether a pod seems to have no mix, and its workload was not asked for yet.
func (sh *shared) uncertain(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || sh.inquiry == nil || sh.inquiry.answered(ref.UID) || !policy.Governable(pod) || settled(pod) {
		return false
	}
	if p, _ := sh.unhurried.Resolve(pod); p != nil && p.Source != policy.SourceDefault {
		return false
	}
	return !sh.classifier.Pins(&pod.Spec)
}

// inquiry asks the API server which mixes a namespace has, and waits until the
// watch has brought them. The watch stays the only source of mixes: an answer
// that was put beside it could outlive a mix that is deleted in between.
//
// Pods of one namespace share their questions: there is one at a time, and it
// answers for all pods that were held before it was asked.
type inquiry struct {
	ask      func(ctx context.Context, namespace string) ([]v1alpha1.CapacityMix, error)
	activate func(klog.Logger, map[string]*corev1.Pod)
	ctx      context.Context //nolint:containedctx // of the scheduler: questions end with it, not with the call that began them

	mu      sync.Mutex
	owners  *lru.Cache                           // UIDs of the owners that were asked for
	waiting map[string]map[types.UID]*corev1.Pod // by namespace; an entry without pods: a question is out
	heard   map[types.NamespacedName]int64       // generations that the watch has brought
}

const (
	// askedOwners is how many owners are remembered. A forgotten one is asked for again.
	askedOwners = 16384
	// askTimeout bounds a question; a pod that cannot be asked for is placed as the caches say.
	askTimeout = 5 * time.Second
	// hearTimeout bounds the wait for a mix that exists and that the watch has not brought:
	// the longest pause of an informer that lost its watch.
	hearTimeout = 30 * time.Second
	hearPoll    = 10 * time.Millisecond
)

func newInquiry(ctx context.Context, client *rest.RESTClient, activate func(klog.Logger, map[string]*corev1.Pod)) *inquiry {
	return &inquiry{
		ask: func(ctx context.Context, namespace string) ([]v1alpha1.CapacityMix, error) {
			list := &v1alpha1.CapacityMixList{}
			err := client.Get().Namespace(namespace).Resource(mixResource.Name).MaxRetries(0).Do(ctx).Into(list)
			return list.Items, err
		},
		activate: activate,
		ctx:      ctx,
		owners:   lru.New(askedOwners),
		waiting:  map[string]map[types.UID]*corev1.Pod{},
		heard:    map[types.NamespacedName]int64{},
	}
}

// answered reports whether an owner was asked for.
func (i *inquiry) answered(owner types.UID) bool {
	_, known := i.owners.Get(owner)
	return known
}

// hold keeps a pod for the next question of its namespace.
func (i *inquiry) hold(pod *corev1.Pod) {
	i.mu.Lock()
	defer i.mu.Unlock()
	pods, asking := i.waiting[pod.Namespace]
	if pods == nil {
		pods = map[types.UID]*corev1.Pod{}
		i.waiting[pod.Namespace] = pods
	}
	pods[pod.UID] = pod
	if !asking {
		go i.serve(pod.Namespace)
	}
}

// serve asks for a namespace until nobody waits.
func (i *inquiry) serve(namespace string) {
	for {
		pods := i.take(namespace)
		if pods == nil {
			return
		}
		i.settle(namespace)
		byName := make(map[string]*corev1.Pod, len(pods))
		for _, pod := range pods {
			i.owners.Add(metav1.GetControllerOfNoCopy(pod).UID, nil)
			byName[pod.Namespace+"/"+pod.Name] = pod
		}
		i.activate(klog.FromContext(i.ctx), byName)
	}
}

// take returns the pods that wait, nil if there are none.
func (i *inquiry) take(namespace string) map[types.UID]*corev1.Pod {
	i.mu.Lock()
	defer i.mu.Unlock()
	pods := i.waiting[namespace]
	if len(pods) == 0 {
		delete(i.waiting, namespace)
		return nil
	}
	i.waiting[namespace] = nil
	return pods
}

// settle returns when the watch has brought every mix that the namespace has
// now, or when it makes no sense to wait any longer.
func (i *inquiry) settle(namespace string) {
	logger := klog.FromContext(i.ctx)
	ctx, cancel := context.WithTimeout(i.ctx, askTimeout)
	defer cancel()
	mixes, err := i.ask(ctx, namespace)
	mixInquiries.Inc()
	if err != nil {
		logger.V(2).Info("Cannot ask for the CapacityMixes of a namespace: new workloads are placed by those that are known", "namespace", namespace, "err", err)
		return
	}
	err = wait.PollUntilContextTimeout(i.ctx, hearPoll, hearTimeout, true, func(context.Context) (bool, error) { return i.hasHeard(mixes), nil })
	if err != nil {
		logger.Error(nil, "The watch of CapacityMixes is behind: new workloads are placed by those that are known", "namespace", namespace, "after", hearTimeout)
	}
}

func (i *inquiry) hasHeard(mixes []v1alpha1.CapacityMix) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n := range mixes {
		if i.heard[types.NamespacedName{Namespace: mixes[n].Namespace, Name: mixes[n].Name}] < mixes[n].Generation {
			return false
		}
	}
	return true
}

// hear notes what the watch brought, after it took effect.
func (i *inquiry) hear(cm *v1alpha1.CapacityMix) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.heard[types.NamespacedName{Namespace: cm.Namespace, Name: cm.Name}] = cm.Generation
}

func (i *inquiry) forget(cm *v1alpha1.CapacityMix) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.heard, types.NamespacedName{Namespace: cm.Namespace, Name: cm.Name})
}
