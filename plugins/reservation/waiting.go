// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/plugins/internal/perscheduler"
)

// waiting are the pods that were tried while capacity was held, and are not known to be bound. When capacity is released or
// held, two kinds of them are tried again: those that lacked what was held for others, and those for which capacity is held now.
// The end of a Reservation is no event of the scheduling queue. Throttle bounds how often the pods of a namespace are tried
// again: tenants change Reservations, directly or by a policy that binds in two phases.
type waiting struct {
	activate func(map[string]*corev1.Pod)
	// serves reports whether capacity is held for a pod.
	serves   func(*corev1.Pod) bool
	throttle *budget.Throttle[struct{}]

	mu   sync.Mutex
	pods map[string]map[types.UID]tried
	// freed is that of the holdings when pods were last woken.
	freed int64
}

// tried is a pod and, if it was not feasible on any node where capacity was held for it, what was freed in its namespace by
// then. lacked is set if a node has too little for it because of what is held there for others.
type tried struct {
	pod     *corev1.Pod
	refused int64
	lacked  *atomic.Bool
}

// never is a value of refused: the pod was not refused.
const never = -1

func newWaiting(activate func(map[string]*corev1.Pod), serves func(*corev1.Pod) bool) *waiting {
	w := &waiting{activate: activate, serves: serves, pods: map[string]map[types.UID]tried{}}
	w.throttle = budget.NewThrottle(func(namespace string, _ budget.Changes[struct{}]) int { return w.wakeIn(namespace) })
	return w
}

// put notes that a pod is tried, and reports whether it was refused where the same capacity was held for it.
func (w *waiting) put(pod *corev1.Pod, freed int64, lacked *atomic.Bool) (refused bool) {
	if !pods.Created(pod) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before, known := w.pods[pod.Namespace][pod.UID]
	if !known {
		before.refused = never
	}
	w.set(tried{pod, before.refused, lacked})
	return before.refused == freed
}

// set adds or replaces a pod. Guarded by mu.
func (w *waiting) set(t tried) {
	of := w.pods[t.pod.Namespace]
	if of == nil {
		of = map[types.UID]tried{}
		w.pods[t.pod.Namespace] = of
	}
	of[t.pod.UID] = t
}

// refuse notes that a pod is not feasible where capacity is held for it, and has it tried again without that.
func (w *waiting) refuse(pod *corev1.Pod, freed int64, lacked *atomic.Bool) {
	w.mu.Lock()
	w.set(tried{pod, freed, lacked})
	w.mu.Unlock()
	w.activate(perscheduler.Pods(pod))
}

func (w *waiting) forget(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(pod.Namespace, pod.UID)
}

// remove removes a pod. Guarded by mu.
func (w *waiting) remove(namespace string, uid types.UID) {
	of := w.pods[namespace]
	if delete(of, uid); len(of) == 0 {
		delete(w.pods, namespace)
	}
}

// wake has the pods tried again that a change can help, if anything was freed since the last time.
func (w *waiting) wake(freed int64) {
	w.mu.Lock()
	var namespaces []string
	if freed != w.freed {
		w.freed = freed
		for namespace := range w.pods {
			namespaces = append(namespaces, namespace)
		}
	}
	w.mu.Unlock()
	for _, namespace := range namespaces {
		w.throttle.NamespaceChanged(namespace)
	}
}

// wakeIn has the pods of a namespace tried again, and returns how many there are. They are put again then: so a pod that is
// deleted while it is tried is not kept.
func (w *waiting) wakeIn(namespace string) int {
	w.mu.Lock()
	all := make([]tried, 0, len(w.pods[namespace]))
	for _, t := range w.pods[namespace] {
		all = append(all, t)
	}
	w.mu.Unlock()
	var pods []*corev1.Pod
	for _, t := range all {
		if t.lacked.Load() || w.serves(t.pod) {
			pods = append(pods, t.pod)
		}
	}
	if len(pods) == 0 {
		return 0
	}
	w.mu.Lock()
	for _, p := range pods {
		if w.pods[namespace][p.UID].refused == never {
			w.remove(namespace, p.UID)
		}
	}
	w.mu.Unlock()
	w.activate(perscheduler.Pods(pods...))
	return len(pods)
}
