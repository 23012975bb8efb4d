// SPDX-License-Identifier: Apache-2.0

package state

import (
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/plugins/internal/perscheduler"
)

// groupings has the namespaces whose pods in the ledger may still be in the groups of a former mix: they are updated one by one, after
// a pause where the mixes change often. A pod that claims a slot meanwhile would not see those that are still to come, and take the slot
// of one of them. So it waits.
type groupings struct {
	// behind is the number of these namespaces: in general there are none, and nobody takes the lock.
	behind atomic.Int32

	mu         sync.Mutex
	namespaces map[string]*regrouping
}

// regrouping is the update of the pods of a namespace.
type regrouping struct {
	// begun counts the changes, and made is how many of them the mixes have.
	begun, made uint64
	waiting     map[types.UID]*corev1.Pod
}

// begin notes that the groups of a namespace change. It is called before the mix is changed that they follow from.
func (g *groupings) begin(namespace string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.namespaces[namespace]
	if r == nil {
		r = &regrouping{waiting: map[types.UID]*corev1.Pod{}}
		if g.namespaces == nil {
			g.namespaces = map[string]*regrouping{}
		}
		g.namespaces[namespace] = r
		g.behind.Add(1)
	}
	r.begun++
}

// set notes that the mixes have the changes of a namespace that began.
func (g *groupings) set(namespace string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.namespaces[namespace]; r != nil {
		r.made = r.begun
	}
}

// made returns how many changes the mixes of a namespace have, since its pods were in their groups.
func (g *groupings) made(namespace string) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.namespaces[namespace]; r != nil {
		return r.made
	}
	return 0
}

// end notes that all pods of a namespace are in the groups that so many changes have made of it, and returns the pods that waited for
// that. If another change has begun meanwhile, they wait for the next end.
func (g *groupings) end(namespace string, made uint64) (waited []*corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.namespaces[namespace]
	if r == nil || r.begun != made {
		return nil
	}
	delete(g.namespaces, namespace)
	g.behind.Add(-1)
	for _, pod := range r.waiting {
		waited = append(waited, pod)
	}
	return waited
}

// wait reports whether a pod must wait, and has end return it then.
func (g *groupings) wait(pod *corev1.Pod) bool {
	if g.behind.Load() == 0 {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.namespaces[pod.Namespace]
	if r == nil {
		return false
	}
	r.waiting[pod.UID] = pod
	return true
}

// Regrouping reports whether other pods of a pod's namespace are still to be moved to the groups of a changed mix. The pod is activated
// once they are.
func (s *State) Regrouping(pod *corev1.Pod) bool { return s.groupings.wait(pod) }

// endRegrouping activates the pods that waited for the groups of a namespace.
func (s *State) endRegrouping(namespace string, made uint64) {
	if waited := s.groupings.end(namespace, made); len(waited) > 0 {
		s.Activate(s.logger, perscheduler.Pods(waited...))
	}
}
