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

// Gate holds the first pods back until event handlers have seen everything that
// there was at the start. The zero value is open.
type Gate struct {
	// Reason is why a pod is held back. It is logged; the pod's condition does not change.
	Reason string
	// Unseen completes "... within 30s", the error of a Wait that takes too long.
	Unseen string

	handlers []cache.InformerSynced
	synced   atomic.Bool

	mu   sync.Mutex
	held []*corev1.Pod
}

// Add has the gate wait for something more. Before the first Wait only.
func (g *Gate) Add(synced cache.InformerSynced) { g.handlers = append(g.handlers, synced) }

// Handle registers an event handler, whose first list the gate waits for.
func (g *Gate) Handle(resource string, informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) error {
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return fmt.Errorf("watch %s: %w", resource, err)
	}
	g.Add(registration.HasSynced)
	return nil
}

// HasSynced reports whether all is seen. It does not block.
func (g *Gate) HasSynced() bool {
	if g.synced.Load() {
		return true
	}
	for _, synced := range g.handlers {
		if !synced() {
			return false
		}
	}
	g.synced.Store(true)
	return true
}

// Wait returns once all is seen, or an error if that takes too long. After the
// first time it costs nothing.
func (g *Gate) Wait(ctx context.Context) error {
	if g.synced.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), g.HasSynced) {
		return fmt.Errorf("%s within %s", g.Unseen, syncTimeout)
	}
	return nil
}

// PreEnqueue holds a pod back until all is seen: a scheduling cycle would have to
// wait for it. Release activates the pod then.
func (g *Gate) PreEnqueue(_ context.Context, pod *corev1.Pod) *fwk.Status {
	if g.hold(pod) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, g.Reason)
	}
	return nil
}

// NotSynced is the error of a scheduling cycle that begins before all is seen,
// where PreEnqueue is disabled; nil later. The queue tries the pod again after
// its back-off.
func (g *Gate) NotSynced() *fwk.Status {
	if g.HasSynced() {
		return nil
	}
	return fwk.AsStatus(errors.New(g.Reason))
}

// hold has a pod activated by Release once all is seen. It returns false if it is,
// so that the pod can be scheduled now. It does not block.
func (g *Gate) hold(pod *corev1.Pod) bool {
	if g.synced.Load() {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.HasSynced() { // Release may have taken the others
		return false
	}
	g.held = append(g.held, pod)
	return true
}

// Release activates the held pods once all is seen, and until then logs what is
// not. It returns early when the context ends.
func (g *Gate) Release(ctx context.Context, activate func(klog.Logger, map[string]*corev1.Pod)) {
	logger := klog.FromContext(ctx)
	for {
		err := g.Wait(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			break
		}
		logger.Error(err, "No pod is scheduled yet")
	}
	g.mu.Lock()
	held := g.held
	g.held = nil
	g.mu.Unlock()
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
