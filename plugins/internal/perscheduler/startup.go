// SPDX-License-Identifier: Apache-2.0

package perscheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// syncTimeout bounds the wait for event handlers. The scheduler starts only
// after the caches behind them are complete, so they are behind by what is in
// their queues.
const syncTimeout = 30 * time.Second

// Startup holds the first pods back until event handlers have seen everything that
// there was at the start. The zero value is open.
type Startup struct {
	// Reason is why a pod is held back. It is logged; the pod's condition does not change.
	Reason string
	// Unseen completes "... within 30s", the error of a Wait that takes too long.
	Unseen string

	handlers []cache.InformerSynced
	synced   atomic.Bool

	mu   sync.Mutex
	held []*corev1.Pod
}

// Add has it wait for something more. Before the first Wait only.
func (s *Startup) Add(synced cache.InformerSynced) { s.handlers = append(s.handlers, synced) }

// Handle registers an event handler, whose first list it waits for.
func (s *Startup) Handle(resource string, informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) error {
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return fmt.Errorf("watch %s: %w", resource, err)
	}
	s.Add(registration.HasSynced)
	return nil
}

// HasSynced reports whether all is seen. It does not block.
func (s *Startup) HasSynced() bool {
	if s.synced.Load() {
		return true
	}
	for _, synced := range s.handlers {
		if !synced() {
			return false
		}
	}
	s.synced.Store(true)
	return true
}

// Wait returns once all is seen, or an error if that takes too long. After the
// first time it costs nothing.
func (s *Startup) Wait(ctx context.Context) error {
	if s.synced.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), s.HasSynced) {
		return fmt.Errorf("%s within %s", s.Unseen, syncTimeout)
	}
	return nil
}

// PreEnqueue holds a pod back until all is seen: a scheduling cycle would have to
// wait for it. Release activates the pod then.
func (s *Startup) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if s.hold(pod) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, s.Reason)
	}
	return nil
}

// NotSynced is the error of a scheduling cycle that begins before all is seen,
// where PreEnqueue is disabled; nil later. The queue tries the pod again after
// its back-off.
func (s *Startup) NotSynced() *fwk.Status {
	if s.HasSynced() {
		return nil
	}
	return fwk.AsStatus(errors.New(s.Reason))
}

// hold has a pod activated by Release once all is seen. It returns false if it is,
// so that the pod can be scheduled now. It does not block.
func (s *Startup) hold(pod *corev1.Pod) bool {
	if s.synced.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.HasSynced() { // Release may have taken the others
		return false
	}
	s.held = append(s.held, pod)
	return true
}

// Release activates the held pods once all is seen, and until then logs what is
// not. It returns early when the context ends.
func (s *Startup) Release(ctx context.Context, activate func(klog.Logger, map[string]*corev1.Pod)) {
	logger := klog.FromContext(ctx)
	for {
		err := s.Wait(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			break
		}
		logger.Error(err, "No pod is scheduled yet")
	}
	s.mu.Lock()
	held := s.held
	s.held = nil
	s.mu.Unlock()
	activate(logger, Pods(held...))
}

// Pods is the argument of fwk.PodActivator.
func Pods(pods ...*corev1.Pod) map[string]*corev1.Pod {
	m := make(map[string]*corev1.Pod, len(pods))
	for _, p := range pods {
		m[p.Namespace+"/"+p.Name] = p
	}
	return m
}
