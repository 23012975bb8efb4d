// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/plugins/internal/perscheduler"
)

// waiting are the pods that were tried while capacity was held, and are not known to be bound. They are tried again when
// capacity is released or comes to be held: the end of a Reservation is no event that the scheduling queue knows.
type waiting struct {
	activate func(map[string]*corev1.Pod)

	mu   sync.Mutex
	pods map[types.UID]tried
	// freed is that of the ledger when pods were last woken.
	freed int64
}

// tried is a pod and, if it was not feasible on any node where capacity was held for it, what was freed by then.
type tried struct {
	pod     *corev1.Pod
	refused int64
}

// never is a value of refused: the pod was not refused.
const never = -1

func newWaiting(activate func(map[string]*corev1.Pod)) *waiting {
	return &waiting{activate: activate, pods: map[types.UID]tried{}}
}

// put notes that a pod is tried, and reports whether it was refused where the same capacity was held for it.
func (w *waiting) put(pod *corev1.Pod, freed int64) (refused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, known := w.pods[pod.UID]
	if !known {
		before.refused = never
	}
	w.pods[pod.UID] = tried{pod, before.refused}
	return before.refused == freed
}

// refuse notes that a pod is not feasible where capacity is held for it.
func (w *waiting) refuse(pod *corev1.Pod, freed int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[pod.UID] = tried{pod, freed}
}

func (w *waiting) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pods, uid)
}

// wake has the pods tried again, if anything was freed since the last time. They are put again then: so a pod that is deleted
// while it is tried is not kept.
func (w *waiting) wake(freed int64) {
	w.mu.Lock()
	var pods []*corev1.Pod
	if freed != w.freed {
		w.freed = freed
		for uid, t := range w.pods {
			pods = append(pods, t.pod)
			if t.refused != freed {
				delete(w.pods, uid)
			}
		}
	}
	w.mu.Unlock()
	if len(pods) > 0 {
		w.activate(perscheduler.Pods(pods...))
	}
}
