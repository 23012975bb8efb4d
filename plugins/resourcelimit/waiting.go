// SPDX-License-Identifier: Apache-2.0

package resourcelimit

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/handler"
	"berth.dev/berth/internal/kube/standin"
	"berth.dev/berth/internal/limits/registry"
	"berth.dev/berth/plugins/internal/perscheduler"
)

// waiting are the pods with a size that were tried and are not known to be
// bound, and the size that each was last tried with.
//
// They are woken by it, and not by a queueing hint on ResourceLimits: for a hint
// the scheduler would open a second watch, which may be ahead of the one that
// the limits are read from. A pod would be tried with the old limit then, and
// not be woken again.
type waiting struct {
	mu          sync.Mutex
	byNamespace map[string]map[types.UID]tried
}

type tried struct {
	pod  *corev1.Pod
	with registry.Resolution
}

func newWaiting() *waiting { return &waiting{byNamespace: map[string]map[types.UID]tried{}} }

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

// forget removes a pod and reports whether it was there.
func (w *waiting) forget(pod *corev1.Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	pods := w.byNamespace[pod.Namespace]
	_, was := pods[pod.UID]
	if delete(pods, pod.UID); was && len(pods) == 0 {
		delete(w.byNamespace, pod.Namespace)
	}
	return was
}

// takeChanged removes and returns the pods that were tried with another size than
// they have now, by "namespace/name". They come back when they are tried again.
// An empty namespace is all namespaces.
func (w *waiting) takeChanged(namespace string, now func(*corev1.Pod) registry.Resolution) map[string]*corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := map[string]*corev1.Pod{}
	for ns, pods := range w.byNamespace {
		if namespace != "" && namespace != ns {
			continue
		}
		for uid, t := range pods {
			if now(t.pod) != t.with {
				changed[ns+"/"+t.pod.Name] = t.pod
				delete(pods, uid)
			}
		}
		if len(pods) == 0 {
			delete(w.byNamespace, ns)
		}
	}
	return changed
}

// sizeOf returns a pod's size, and ensures that the pod is tried again if its
// size changes while it waits.
//
// A limit that changes is put into the registry before the waiting pods are
// compared with it. Here the pod is added to the waiting ones before the registry
// is read a second time. So one of the two sees the change.
func (sh *shared) sizeOf(pod *corev1.Pod) registry.Resolution {
	if !standin.Created(pod) {
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

// wake tries the pods again whose size is another since a limit of the namespace
// changed. Those of the default namespace concern all others.
func (sh *shared) wake(namespace string) {
	if namespace == sh.args.DefaultNamespace {
		namespace = ""
	}
	if pods := sh.waiting.takeChanged(namespace, sh.limits.For); len(pods) > 0 {
		sh.logger.V(2).Info("Trying pods again whose ResourceLimit changed", "namespace", namespace, "pods", len(pods))
		sh.activate(sh.logger, pods)
	}
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
				if sh.waiting.forget(pod) {
					sh.activate(sh.logger, perscheduler.Pods(pod))
				}
			}
		},
		Delete: func(pod *corev1.Pod) { sh.waiting.forget(pod) },
	}
}
