// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
)

// Recording holds every state that pods went through since it was made, by the test's clock and without the gaps of polling.
type Recording struct {
	w        *World
	selector string

	mu     sync.Mutex // guards what follows
	events []Event
	broken error
}

// Event is what a watch showed of a pod.
type Event struct {
	Type watch.EventType
	At   time.Time
	Pod  *corev1.Pod
}

// Record starts to record the pods of an app, with those that exist as the first events.
func (w *World) Record(app string) *Recording {
	w.T.Helper()
	return w.record(labels.FormatLabels(builders.Labels(app)))
}

// RecordAll is Record for all pods of the test's namespace.
func (w *World) RecordAll() *Recording {
	w.T.Helper()
	return w.record("")
}

func (w *World) record(selector string) *Recording {
	w.T.Helper()
	r := &Recording{w: w, selector: selector}
	options := metav1.ListOptions{LabelSelector: selector}
	list, err := w.Kube.CoreV1().Pods(w.Namespace).List(w.Ctx, options)
	require.NoError(w.T, err)
	for i := range list.Items {
		r.add(watch.Event{Type: watch.Added, Object: &list.Items[i]})
	}
	// The API server ends the watch of a test that is too slow on a busy machine: it goes on where it was.
	pods, err := toolswatch.NewRetryWatcherWithContext(w.Ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return w.Kube.CoreV1().Pods(w.Namespace).Watch(ctx, o)
		},
	})
	require.NoError(w.T, err)
	w.T.Cleanup(pods.Stop)
	go func() {
		for e := range pods.ResultChan() {
			r.add(e)
		}
		r.add(watch.Event{Type: "END"})
	}()
	return r
}

func (r *Recording) add(e watch.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		r.broken = fmt.Errorf("the watch of %q gave %s %v", r.selector, e.Type, e.Object)
		return
	}
	r.events = append(r.events, Event{Type: e.Type, At: time.Now(), Pod: pod})
}

// seen returns the events that the watch has brought.
func (r *Recording) seen() []Event {
	r.w.T.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.NoError(r.w.T, r.broken)
	return slices.Clip(r.events)
}

// Events returns the events up to now.
func (r *Recording) Events() (events []Event) {
	r.w.T.Helper()
	now, err := r.w.Kube.CoreV1().Pods(r.w.Namespace).List(r.w.Ctx, metav1.ListOptions{LabelSelector: r.selector})
	require.NoError(r.w.T, err)
	r.w.Eventually(fmt.Sprintf("the watch of %q has caught up", r.selector), func() (bool, string) {
		events = r.seen()
		versions := map[string]bool{}
		for _, e := range events {
			versions[e.Pod.ResourceVersion] = true
		}
		for _, p := range now.Items {
			if !versions[p.ResourceVersion] {
				return false, p.Name
			}
		}
		return true, ""
	})
	return events
}

// first returns, by name, the pods of an app in the first event that showed them in a state.
func (r *Recording) first(app string, in func(*corev1.Pod) bool) map[string]Event {
	r.w.T.Helper()
	found := map[string]Event{}
	for _, e := range r.seen() {
		if _, known := found[e.Pod.Name]; !known && builders.IsOf(e.Pod, app) && in(e.Pod) {
			found[e.Pod.Name] = e
		}
	}
	return found
}

// Created returns when the pods of an app were first seen, by name.
func (r *Recording) Created(app string) map[string]Event {
	return r.first(app, func(*corev1.Pod) bool { return true })
}

// Bound returns the pods of an app in the first event that showed their node, by name.
func (r *Recording) Bound(app string) map[string]Event {
	return r.first(app, func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
}

// Nominated returns the pods of an app in the first event that showed a nominated node, by name.
func (r *Recording) Nominated(app string) map[string]Event {
	return r.first(app, func(p *corev1.Pod) bool { return p.Status.NominatedNodeName != "" })
}

// Deleting returns the pods of an app in the first event that showed them terminating, by name.
func (r *Recording) Deleting(app string) map[string]Event {
	return r.first(app, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// WaitBound waits until n pods of an app have been seen bound and returns those
// that were. Unlike World.WaitBound it counts pods that are gone since.
func (r *Recording) WaitBound(app string, n int, within time.Duration) map[string]Event {
	r.w.T.Helper()
	var bound map[string]Event
	r.w.Within(within, fmt.Sprintf("%d pods of %s are bound", n, app), func() (bool, string) {
		bound = r.Bound(app)
		return len(bound) >= n, fmt.Sprintf("%d bound", len(bound))
	})
	require.Equal(r.w.T, n, len(bound), "pods of %s that were bound", app)
	return bound
}

// WaitPod waits until the watch has shown a pod of an app in a state, and returns it as it was then. Polls of the API server are rare on a
// busy machine: they miss what is so for seconds, as a replica that runs beside its replacement.
func (r *Recording) WaitPod(what, app string, in func(*corev1.Pod) bool) *corev1.Pod {
	r.w.T.Helper()
	var found []*corev1.Pod
	r.w.Eventually(what, func() (bool, string) {
		for _, e := range r.first(app, in) {
			found = append(found, e.Pod)
		}
		return len(found) > 0, fmt.Sprintf("%d events", len(r.seen()))
	})
	return found[0]
}

// MostAtOnce returns the highest number of pods that ran at any instant, of those that were neither terminating nor finished.
func (r *Recording) MostAtOnce() (most int) {
	r.w.T.Helper()
	r.Replay(func(running map[types.UID]*corev1.Pod) { most = max(most, len(running)) })
	return most
}

// RequireOnTheirTypes demands that at every instant every bound pod had a slot
// and ran on the type that the mix gives to that slot.
func (r *Recording) RequireOnTheirTypes(m split.Mix) {
	r.w.T.Helper()
	nodes := r.w.Types()
	bound := 0
	for _, e := range r.Events() {
		p := e.Pod
		if p.Spec.NodeName == "" {
			continue
		}
		bound++
		slot, ok := governing.ClaimedSlot(p)
		require.True(r.w.T, ok, "pod %s is bound and has a slot: %v", p.Name, p.Annotations)
		require.Equal(r.w.T, m.TypeOf(slot), nodes[p.Spec.NodeName], "the type that pod %s of slot %d runs on", p.Name, slot)
	}
	require.Positive(r.w.T, bound, "events of bound pods")
}

// Replay shows, after every event in turn, the pods that are bound and neither
// terminating nor finished.
func (r *Recording) Replay(look func(running map[types.UID]*corev1.Pod)) {
	r.w.T.Helper()
	running := map[types.UID]*corev1.Pod{}
	for _, e := range r.Events() {
		p := e.Pod
		delete(running, p.UID)
		if e.Type != watch.Deleted && p.Spec.NodeName != "" && p.DeletionTimestamp == nil &&
			p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			running[p.UID] = p
		}
		look(running)
	}
}

// MostOn returns the highest number of an app's pods that ran on a capacity
// type at any instant, of those that were neither terminating nor finished.
func (r *Recording) MostOn(t capacity.Type) int {
	r.w.T.Helper()
	nodes := r.w.Types()
	most := 0
	r.Replay(func(running map[types.UID]*corev1.Pod) {
		n := 0
		for _, p := range running {
			if nodes[p.Spec.NodeName] == t {
				n++
			}
		}
		most = max(most, n)
	})
	return most
}

// FewestReady returns the lowest number of an app's Ready pods on a capacity
// type, and of all, at any instant after the moment when all of them were first
// Ready.
func (r *Recording) FewestReady(t capacity.Type, replicas int) (onType, all int) {
	r.w.T.Helper()
	return r.FewestReadyOf(r.w.Types(), t, replicas)
}

// FewestReadyOf is FewestReady where nodes came and went: their types are given.
func (r *Recording) FewestReadyOf(nodes map[string]capacity.Type, t capacity.Type, replicas int) (onType, all int) {
	r.w.T.Helper()
	onType, all = replicas, replicas
	began := false
	r.Replay(func(running map[types.UID]*corev1.Pod) {
		ready, here := 0, 0
		for _, p := range running {
			if !Ready(p) {
				continue
			}
			ready++
			if nodes[p.Spec.NodeName] == t {
				here++
			}
		}
		if began = began || ready == replicas; began {
			onType, all = min(onType, here), min(all, ready)
		}
	})
	return onType, all
}
