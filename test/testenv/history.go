// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// History is what a watch saw of the pods of a namespace, event by event.
type History struct {
	mu    sync.Mutex
	pods  map[types.UID]*FirstBound
	moves []string
}

// FirstBound is a pod as the first watch event with a node name showed it.
type FirstBound struct {
	Name, Node  string
	Annotations map[string]string
}

// History watches the pods of the namespace until the test ends. It outlives
// the API server: what happens while the watch is down is seen by a new list.
func (w *World) History() *History {
	w.T.Helper()
	h := &History{pods: map[types.UID]*FirstBound{}}
	pods := w.Kube.CoreV1().Pods(w.Namespace)
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return pods.List(ctx, o) },
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return pods.Watch(ctx, o) },
		},
		ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { h.see(obj.(*corev1.Pod)) },
			UpdateFunc: func(_, obj any) { h.see(obj.(*corev1.Pod)) },
		},
	})
	go informer.RunWithContext(w.Ctx)
	w.Eventually("the pods are watched", func() (bool, string) { return informer.HasSynced(), "no list yet" })
	return h
}

func (h *History) see(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.pods[pod.UID]
	if first == nil {
		h.pods[pod.UID] = &FirstBound{Name: pod.Name, Node: pod.Spec.NodeName, Annotations: maps.Clone(pod.Annotations)}
		return
	}
	if first.Node != pod.Spec.NodeName {
		h.moves = append(h.moves, fmt.Sprintf("%s from %s to %s", pod.Name, first.Node, pod.Spec.NodeName))
	}
}

// Bound returns how many pods have been seen with a node name.
func (h *History) Bound() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.pods)
}

// FirstBound returns the pods that have been seen with a node name.
func (h *History) FirstBound() []FirstBound {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]FirstBound, 0, len(h.pods))
	for _, p := range h.pods {
		all = append(all, *p)
	}
	return all
}

// AssertBoundOnce demands that no pod ever changed its node, and that the audit
// log has at most one successful Binding per pod.
func (w *World) AssertBoundOnce(h *History) {
	w.T.Helper()
	h.mu.Lock()
	assert.Empty(w.T, h.moves, "pods that changed their node")
	h.mu.Unlock()
	bindings := map[string]int{}
	for _, e := range w.Audit(func(r Request) bool { return r.Resource == "pods/binding" && r.OK() }) {
		bindings[e.UID+" "+e.Name]++
	}
	maps.DeleteFunc(bindings, func(_ string, n int) bool { return n == 1 })
	assert.Empty(w.T, bindings, "pods with more than one successful Binding")
}
