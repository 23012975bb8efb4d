// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
)

// wakeups has pods tried again when their wait is over. A pod has one timer,
// however often it is tried meanwhile, and the timer does not hold the pod.
type wakeups struct {
	pods     corelisters.PodLister
	activate func(klog.Logger, map[string]*corev1.Pod)
	logger   klog.Logger

	mu     sync.Mutex
	timers map[types.UID]*wakeup
}

type wakeup struct {
	at    time.Time
	timer *time.Timer
}

func newWakeups(pods corelisters.PodLister, activate func(klog.Logger, map[string]*corev1.Pod), logger klog.Logger) *wakeups {
	return &wakeups{pods: pods, activate: activate, logger: logger, timers: map[types.UID]*wakeup{}}
}

// set has a pod tried again in a while, at a time. It replaces what was set before.
func (w *wakeups) set(pod *corev1.Pod, at time.Time, in time.Duration) {
	w.replace(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod.UID, at, in)
	// No event comes any more for a pod that was deleted during its scheduling cycle.
	if w.known(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod.UID) == nil {
		w.stop(pod.UID)
	}
}

func (w *wakeups) replace(name types.NamespacedName, uid types.UID, at time.Time, in time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old := w.timers[uid]; old != nil {
		if old.at.Equal(at) {
			return
		}
		old.timer.Stop()
	}
	next := &wakeup{at: at}
	next.timer = time.AfterFunc(in, func() { w.fire(name, uid, next) })
	w.timers[uid] = next
}

// stop forgets a pod that does not wait any more.
func (w *wakeups) stop(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old := w.timers[uid]; old != nil {
		old.timer.Stop()
		delete(w.timers, uid)
	}
}

func (w *wakeups) fire(name types.NamespacedName, uid types.UID, fired *wakeup) {
	w.mu.Lock()
	current := w.timers[uid] == fired
	if current {
		delete(w.timers, uid)
	}
	w.mu.Unlock()
	if !current {
		return
	}
	if pod := w.known(name, uid); pod != nil {
		w.activate(w.logger, podsToActivate(pod))
	}
}

// known returns a pod as the cache has it, nil if it is gone or another one.
func (w *wakeups) known(name types.NamespacedName, uid types.UID) *corev1.Pod {
	pod, err := w.pods.Pods(name.Namespace).Get(name.Name)
	if err != nil || pod.UID != uid || !live(pod) {
		return nil
	}
	return pod
}
