// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"berth.dev/berth/test/builders"
)

// Sighting is the first watch event that showed a pod in a certain state.
type Sighting struct {
	At  time.Time
	Pod *corev1.Pod
}

// Sightings records the pods of a namespace as a watch shows them, from the
// moment it was made: by the test's clock and without the gaps of polling.
type Sightings struct {
	w *World

	mu        sync.Mutex
	created   map[string]Sighting // by pod name
	bound     map[string]Sighting
	nominated map[string]Sighting
	deleting  map[string]Sighting
	ended     error
}

// WatchPods starts to record the pods of the test's namespace.
func (w *World) WatchPods() *Sightings {
	w.T.Helper()
	list, err := w.Kube.CoreV1().Pods(w.Namespace).List(w.Ctx, metav1.ListOptions{})
	require.NoError(w.T, err)
	events, err := w.Kube.CoreV1().Pods(w.Namespace).Watch(w.Ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	require.NoError(w.T, err)
	s := &Sightings{
		w: w, created: map[string]Sighting{}, bound: map[string]Sighting{},
		nominated: map[string]Sighting{}, deleting: map[string]Sighting{},
	}
	for i := range list.Items {
		s.see(&list.Items[i])
	}
	ctx, cancel := context.WithCancel(w.Ctx)
	w.T.Cleanup(cancel)
	go s.follow(ctx, events)
	return s
}

func (s *Sightings) follow(ctx context.Context, events watch.Interface) {
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, open := <-events.ResultChan():
			pod, ok := e.Object.(*corev1.Pod)
			if !open || !ok {
				s.mu.Lock()
				s.ended = fmt.Errorf("the watch of the test's pods ended: %+v", e)
				s.mu.Unlock()
				return
			}
			s.see(pod)
		}
	}
}

func (s *Sightings) see(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := Sighting{At: time.Now(), Pod: pod}
	note := func(in map[string]Sighting, is bool) {
		if _, known := in[pod.Name]; is && !known {
			in[pod.Name] = now
		}
	}
	note(s.created, true)
	note(s.bound, pod.Spec.NodeName != "")
	note(s.nominated, pod.Status.NominatedNodeName != "")
	note(s.deleting, pod.DeletionTimestamp != nil)
}

// of returns a copy of one record, of the pods of an app.
func (s *Sightings) of(in map[string]Sighting, app string) map[string]Sighting {
	s.w.T.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NoError(s.w.T, s.ended)
	found := map[string]Sighting{}
	for name, seen := range in {
		if builders.IsOf(seen.Pod, app) {
			found[name] = seen
		}
	}
	return found
}

// Created returns when the pods of an app were first seen, by name.
func (s *Sightings) Created(app string) map[string]Sighting { return s.of(s.created, app) }

// Bound returns the pods of an app in the first event that showed their node, by name.
func (s *Sightings) Bound(app string) map[string]Sighting { return s.of(s.bound, app) }

// Nominated returns the pods of an app in the first event that showed a
// nominated node, by name.
func (s *Sightings) Nominated(app string) map[string]Sighting { return s.of(s.nominated, app) }

// Deleting returns the pods of an app in the first event that showed them
// terminating, by name.
func (s *Sightings) Deleting(app string) map[string]Sighting { return s.of(s.deleting, app) }

// WaitBound waits until n pods of an app have been seen bound and returns those
// that were. Unlike World.WaitBound it counts pods that are gone since.
func (s *Sightings) WaitBound(app string, n int, within time.Duration) map[string]Sighting {
	s.w.T.Helper()
	var bound map[string]Sighting
	s.w.Within(within, fmt.Sprintf("%d pods of %s are bound", n, app), func() (bool, string) {
		bound = s.Bound(app)
		return len(bound) >= n, fmt.Sprintf("%d bound", len(bound))
	})
	require.Equal(s.w.T, n, len(bound), "pods of %s that were bound", app)
	return bound
}
