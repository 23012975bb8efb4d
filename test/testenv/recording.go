// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
)

// Recording holds every state that the pods of an app went through.
type Recording struct {
	w   *World
	app string

	mu     sync.Mutex // guards what follows
	events []watch.Event
	broken error
}

// Record starts to record the pods of an app, with those that exist as the first events.
func (w *World) Record(app string) *Recording {
	w.T.Helper()
	r := &Recording{w: w, app: app}
	list, err := w.Kube.CoreV1().Pods(w.Namespace).List(w.Ctx, r.options())
	require.NoError(w.T, err)
	for i := range list.Items {
		r.add(watch.Event{Type: watch.Added, Object: &list.Items[i]})
	}
	options := r.options()
	options.ResourceVersion = list.ResourceVersion
	pods, err := w.Kube.CoreV1().Pods(w.Namespace).Watch(w.Ctx, options)
	require.NoError(w.T, err)
	w.T.Cleanup(pods.Stop)
	go func() {
		for e := range pods.ResultChan() {
			r.add(e)
		}
	}()
	return r
}

func (r *Recording) options() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: builders.Labels(r.app)})}
}

func (r *Recording) add(e watch.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := e.Object.(*corev1.Pod); !ok {
		r.broken = fmt.Errorf("the watch of %s gave %s %v", r.app, e.Type, e.Object)
		return
	}
	r.events = append(r.events, e)
}

// Events returns the events up to now.
func (r *Recording) Events() []watch.Event {
	r.w.T.Helper()
	now, err := r.w.Kube.CoreV1().Pods(r.w.Namespace).List(r.w.Ctx, r.options())
	require.NoError(r.w.T, err)
	var events []watch.Event
	r.w.Eventually("the watch of "+r.app+" has caught up", func() (bool, string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		require.NoError(r.w.T, r.broken)
		events = slices.Clip(r.events)
		seen := map[string]bool{}
		for _, e := range events {
			seen[e.Object.(*corev1.Pod).ResourceVersion] = true
		}
		for _, p := range now.Items {
			if !seen[p.ResourceVersion] {
				return false, p.Name
			}
		}
		return true, ""
	})
	return events
}

// RequireOnTheirTypes demands that at every instant every bound pod had a slot
// and ran on the type that the mix gives to that slot.
func (r *Recording) RequireOnTheirTypes(m split.Mix) {
	r.w.T.Helper()
	nodes := r.w.Types()
	bound := 0
	for _, e := range r.Events() {
		p := e.Object.(*corev1.Pod)
		if p.Spec.NodeName == "" {
			continue
		}
		bound++
		slot, ok := policy.ClaimedSlot(p)
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
		p := e.Object.(*corev1.Pod)
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

// Revisions describes where the live pods of each owner of an app run, oldest owner first.
func (w *World) Revisions(app string) string {
	w.T.Helper()
	var owners []types.UID
	groups := map[types.UID][]corev1.Pod{}
	for _, p := range w.Live(app) {
		var owner types.UID
		if ref := metav1.GetControllerOf(&p); ref != nil {
			owner = ref.UID
		}
		if groups[owner] == nil {
			owners = append(owners, owner)
		}
		groups[owner] = append(groups[owner], p)
	}
	parts := make([]string, 0, len(owners))
	for _, owner := range owners {
		parts = append(parts, w.SplitOf(groups[owner]).String())
	}
	return strings.Join(parts, " | ")
}
