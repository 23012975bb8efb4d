// SPDX-License-Identifier: Apache-2.0

// Package wakeup activates pods in the scheduling queue: at a time, or after a
// change that the queue has no event for.
package wakeup

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/internal/perscheduler"
)

// Activate has pods scheduled again. It has the form of fwk.PodActivator.
type Activate func(klog.Logger, map[string]*corev1.Pod)

// Timers activates pods at a time. A pod has one timer, however often it is
// tried meanwhile, and the timer does not keep the pod in memory.
type Timers struct {
	pods     corelisters.PodLister
	activate Activate
	clock    clock.WithDelayedExecution
	logger   klog.Logger

	mu     sync.Mutex
	timers map[types.UID]*timer
}

type timer struct {
	at    time.Time
	timer clock.Timer
}

// NewTimers returns Timers without a timer.
func NewTimers(pods corelisters.PodLister, activate Activate, c clock.WithDelayedExecution, logger klog.Logger) *Timers {
	return &Timers{pods: pods, activate: activate, clock: c, logger: logger, timers: map[types.UID]*timer{}}
}

// Set activates a pod at a time, which is in a while. It replaces the pod's timer.
func (t *Timers) Set(pod *corev1.Pod, at time.Time, in time.Duration) {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	t.replace(name, pod.UID, at, in)
	// A pod that was deleted during its scheduling cycle has no event any more that stops its timer.
	if t.cached(name, pod.UID) == nil {
		t.Stop(pod.UID)
	}
}

func (t *Timers) replace(name types.NamespacedName, uid types.UID, at time.Time, in time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.timers[uid]; old != nil {
		if old.at.Equal(at) {
			return
		}
		old.timer.Stop()
	}
	next := &timer{at: at}
	next.timer = t.clock.AfterFunc(in, func() { t.fire(name, uid, next) })
	t.timers[uid] = next
}

// Stop removes the timer of a pod.
func (t *Timers) Stop(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.timers[uid]; old != nil {
		old.timer.Stop()
		delete(t.timers, uid)
	}
}

// Len returns how many pods have a timer.
func (t *Timers) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.timers)
}

func (t *Timers) fire(name types.NamespacedName, uid types.UID, fired *timer) {
	t.mu.Lock()
	current := t.timers[uid] == fired
	if current {
		delete(t.timers, uid)
	}
	t.mu.Unlock()
	if !current {
		return
	}
	if pod := t.cached(name, uid); pod != nil {
		t.activate(t.logger, perscheduler.Pods(pod))
	}
}

// cached returns an active pod from the cache, nil if it is gone or another pod has its name.
func (t *Timers) cached(name types.NamespacedName, uid types.UID) *corev1.Pod {
	pod, err := t.pods.Pods(name.Namespace).Get(name.Name)
	if err != nil || pod.UID != uid || !ledger.Active(pod) {
		return nil
	}
	return pod
}
