// SPDX-License-Identifier: Apache-2.0

package resourcelimit

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/handler"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/limits/registry"
)

// waiting are the pods with a size that were tried and are not known to be
// bound, and the size that each was last tried with.
//
// They are woken by it, and not by a queueing hint on ResourceLimits: for a hint
// the scheduler would open a second watch, which may be ahead of the one that
// the limits are read from. A pod would be tried with the old limit then, and
// not be woken again.
//
// Whoever may change a limit, or the annotation of a pod, cannot have the pods of
// a namespace tried again more often than Throttle lets them.
type waiting struct {
	activate func(map[string]*corev1.Pod)
	// sizeOf returns the size that a pod has now.
	sizeOf   func(*corev1.Pod) registry.Resolution
	throttle *budget.Throttle[types.UID]

	mu          sync.Mutex
	byNamespace map[string]map[types.UID]tried
}

type tried struct {
	pod  *corev1.Pod
	with registry.Resolution
}

func newWaiting(activate func(map[string]*corev1.Pod), sizeOf func(*corev1.Pod) registry.Resolution) *waiting {
	w := &waiting{activate: activate, sizeOf: sizeOf, byNamespace: map[string]map[types.UID]tried{}}
	w.throttle = budget.NewThrottle(w.wakeIn)
	return w
}

// put notes what a pod is tried with.
func (w *waiting) put(pod *corev1.Pod, with registry.Resolution) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pods := w.byNamespace[pod.Namespace]
	if pods == nil {
		pods = map[types.UID]tried{}
		w.byNamespace[pod.Namespace] = pods
	}
	pods[pod.UID] = tried{pod, with}
}

// change takes over a pod that changed, and has it tried again if its size is another now.
func (w *waiting) change(pod *corev1.Pod) {
	w.mu.Lock()
	t, waits := w.byNamespace[pod.Namespace][pod.UID]
	if waits {
		w.byNamespace[pod.Namespace][pod.UID] = tried{pod, t.with}
	}
	w.mu.Unlock()
	if waits {
		w.throttle.Changed(pod.Namespace, pod.UID)
	}
}

// forget removes a pod.
func (w *waiting) forget(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(pod.Namespace, pod.UID)
}

// remove removes a pod. Guarded by mu.
func (w *waiting) remove(namespace string, uid types.UID) {
	pods := w.byNamespace[namespace]
	if delete(pods, uid); len(pods) == 0 {
		delete(w.byNamespace, namespace)
	}
}

// wake has the pods tried again whose size is another since a limit changed, those of all namespaces if it is empty.
func (w *waiting) wake(namespace string) {
	namespaces := []string{namespace}
	if namespace == "" {
		w.mu.Lock()
		namespaces = slices.Collect(maps.Keys(w.byNamespace))
		w.mu.Unlock()
	}
	for _, namespace := range namespaces {
		w.throttle.NamespaceChanged(namespace)
	}
}

// wakeIn has the pods of a namespace tried again that changes concern and that were tried with another size than they have now,
// and returns how many there are. They are put again then. A scheduling cycle does not wait while their sizes are determined.
func (w *waiting) wakeIn(namespace string, c budget.Changes[types.UID]) int {
	all := w.concerned(namespace, c)
	maps.DeleteFunc(all, func(_ types.UID, t tried) bool { return w.sizeOf(t.pod) == t.with })
	changed := map[string]*corev1.Pod{}
	w.mu.Lock()
	for uid, t := range all {
		if w.byNamespace[namespace][uid] == t { // otherwise it was tried again, or does not wait any more
			changed[namespace+"/"+t.pod.Name] = t.pod
			w.remove(namespace, uid)
		}
	}
	w.mu.Unlock()
	if len(changed) > 0 {
		w.activate(changed)
	}
	return len(changed)
}

// concerned returns the pods of a namespace that changes concern.
func (w *waiting) concerned(namespace string, c budget.Changes[types.UID]) map[types.UID]tried {
	w.mu.Lock()
	defer w.mu.Unlock()
	pods := w.byNamespace[namespace]
	if c.All {
		return maps.Clone(pods)
	}
	some := make(map[types.UID]tried, len(c.Keys))
	for uid := range c.Keys {
		if t, waits := pods[uid]; waits {
			some[uid] = t
		}
	}
	return some
}

// sizeOf returns a pod's size, and ensures that the pod is tried again if its
// size changes while it waits.
//
// A limit that changes is put into the registry before the waiting pods are
// compared with it. Here the pod is added to the waiting ones before the registry
// is read a second time. So one of the two sees the change.
func (sh *shared) sizeOf(pod *corev1.Pod) registry.Resolution {
	if !pods.Created(pod) {
		return registry.Resolution{} // it is as large as what a Reservation holds
	}
	size := sh.limits.For(pod)
	if size == (registry.Resolution{}) {
		return size // a limit that comes to govern it gives it no more room
	}
	for {
		sh.waiting.put(pod, size)
		if pod = sh.unbound(pod); pod == nil {
			return size
		}
		now := sh.limits.For(pod)
		if now == size {
			return size
		}
		size = now
	}
}

// unbound returns what the cache has of a pod that waits: the queue's object can
// be older. It forgets the pod, and returns nil, if it does not wait any more:
// no event will come that reports it.
func (sh *shared) unbound(pod *corev1.Pod) *corev1.Pod {
	known, err := sh.pods.Pods(pod.Namespace).Get(pod.Name)
	if err == nil && known.UID == pod.UID && known.Spec.NodeName == "" {
		return known
	}
	sh.waiting.forget(pod)
	return nil
}

// limitHandler keeps the registry, and wakes the pods whose size changes.
func (sh *shared) limitHandler() cache.ResourceEventHandler {
	return handler.Funcs[*v1alpha1.ResourceLimit]{
		Add: func(limit *v1alpha1.ResourceLimit) {
			if sh.limits.Set(limit) {
				sh.wake(limit.Namespace)
			}
		},
		Delete: func(limit *v1alpha1.ResourceLimit) {
			sh.limits.Delete(limit.Namespace, limit.Name)
			sh.wake(limit.Namespace)
		},
	}
}

// wake has the pods tried again that a changed limit concerns. One of the default
// namespace concerns those of all others.
func (sh *shared) wake(namespace string) {
	if namespace == sh.args.DefaultNamespace {
		namespace = ""
	}
	sh.waiting.wake(namespace)
}

// podHandler forgets pods that do not wait any more. It also wakes one that is
// annotated to have another size: the scheduling queue has no event for that.
func (sh *shared) podHandler() cache.ResourceEventHandler {
	return handler.Funcs[*corev1.Pod]{
		Update: func(old, pod *corev1.Pod) {
			switch {
			case old.UID != pod.UID: // a deletion was missed
				sh.waiting.forget(old)
			case old.Spec.NodeName == "" && pod.Spec.NodeName != "":
				sh.waiting.forget(pod)
			case old.Annotations[v1alpha1.ResourceLimitLabel] != pod.Annotations[v1alpha1.ResourceLimitLabel]:
				sh.waiting.change(pod)
			}
		},
		Delete: sh.waiting.forget,
	}
}
