// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
)

// Attempt is a pod that is tried on nodes while capacity is held there. It belongs to one scheduling cycle.
type Attempt struct {
	view     *View
	pod      *corev1.Pod
	requests Amounts
	// own are the Reservations that hold capacity for the pod, by node, in the order in which they suit it.
	own map[string][]*Reservation
	// gone are the uses of pods that are evicted in the dry run of a preemption.
	gone []*use
}

// use is a pod that uses capacity which is held again when the pod is gone.
type use struct {
	r    *Reservation
	pod  types.UID
	node string
	// surplus is the number of pods of the Reservation that can go before any of its capacity is held again: it has more of them
	// than replicas.
	surplus int
}

// Attempt returns an Attempt, nil if no capacity is held. freed changes when capacity
// comes to be held by a Reservation of the namespace, or is released.
func (l *Holdings) Attempt(pod *corev1.Pod, now time.Time) (a *Attempt, freed int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refresh(now)
	if l.view.Empty() {
		return nil, l.in[pod.Namespace]
	}
	a = &Attempt{
		view: l.view, pod: pod, own: l.own(pod),
		requests: AmountsOf(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})),
	}
	for _, candidates := range a.own {
		slices.SortStableFunc(candidates, func(x, y *Reservation) int { return prefer(&a.requests, x, y) })
	}
	return a, l.in[pod.Namespace]
}

// Serves reports whether capacity is held that a pod may use.
func (l *Holdings) Serves(pod *corev1.Pod, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refresh(now)
	return slices.ContainsFunc(l.active[pod.Namespace], func(e *entry) bool {
		return slices.ContainsFunc(e.holds, hold.free) && e.r.Selects(pod)
	})
}

// own returns the Reservations that hold capacity for a pod, by node, oldest first; nil if there are none. Guarded by mu.
func (l *Holdings) own(pod *corev1.Pod) (own map[string][]*Reservation) {
	for _, e := range l.active[pod.Namespace] {
		if !slices.ContainsFunc(e.holds, hold.free) || !e.r.Selects(pod) {
			continue
		}
		for _, h := range e.holds {
			if !h.free() {
				continue
			}
			if own == nil {
				own = map[string][]*Reservation{}
			}
			if !slices.Contains(own[h.NodeName], e.r) {
				own[h.NodeName] = append(own[h.NodeName], e.r)
			}
		}
	}
	return own
}

// Clone returns an Attempt that can be changed for itself.
func (a *Attempt) Clone() *Attempt {
	clone := *a
	clone.gone = slices.Clone(a.gone)
	return &clone
}

// Nodes are the nodes where capacity is held for the pod, nil if there are none.
func (a *Attempt) Nodes() sets.Set[string] {
	if len(a.own) == 0 {
		return nil
	}
	return sets.KeySet(a.own)
}

// Remove takes over that a pod is evicted in a dry run: what it uses is held again.
func (a *Attempt) Remove(pod types.UID) {
	if u := a.view.uses[pod]; u != nil && !slices.Contains(a.gone, u) {
		a.gone = append(a.gone, u)
	}
}

// Add takes over that a pod which was removed runs on.
func (a *Attempt) Add(pod types.UID) {
	a.gone = slices.DeleteFunc(a.gone, func(u *use) bool { return u.pod == pod })
}

// RemoveMissing takes over which pods are evicted in the dry run of the preemption for a group of pods: runs reports whether a
// pod is still on its node.
func (a *Attempt) RemoveMissing(runs func(node string, pod types.UID) bool) {
	for uid, u := range a.view.uses {
		if !runs(u.node, uid) {
			a.Remove(uid)
		}
	}
}

// For returns the Reservation whose capacity the pod uses on a node that it fits on, nil for none. snapshot returns the node
// without the pod; it is not called where there is no choice.
func (a *Attempt) For(name string, snapshot func() fwk.NodeInfo) *Reservation {
	candidates := a.own[name]
	if len(candidates) > 1 {
		if node := snapshot(); node != nil {
			if own, _ := a.On(node); own != nil {
				return own
			}
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	return candidates[0]
}

// On returns the Reservation whose capacity the pod uses on a node, nil for none, and the first resource of which the node has
// too little for the pod beyond what is held there: "pods" for the number of pods, "" if the pod fits.
func (a *Attempt) On(node fwk.NodeInfo) (own *Reservation, lacking corev1.ResourceName) {
	name := node.Node().Name
	n, candidates := a.view.nodes[name], a.own[name]
	if len(a.gone) > 0 {
		n, candidates = a.heldAgain(name, n, candidates)
	}
	if n == nil {
		return nil, ""
	}
	if len(candidates) == 0 {
		return nil, n.lacking(node, &a.requests, nil)
	}
	for _, r := range candidates {
		lacks := n.lacking(node, &a.requests, r)
		if lacks == "" {
			return r, ""
		}
		if lacking == "" {
			lacking = lacks
		}
	}
	return nil, lacking
}

// heldAgain adds what is held again on a node when the pods in gone are.
func (a *Attempt) heldAgain(node string, n *held, candidates []*Reservation) (*held, []*Reservation) {
	again, all := map[*Reservation]int{}, map[*Reservation]int{}
	sum := &held{}
	if n != nil {
		sum.pods = n.pods
		sum.total.add(&n.total)
	}
	for _, u := range a.gone {
		if all[u.r]++; u.node != node {
			continue
		}
		again[u.r]++
	}
	for _, u := range a.gone {
		// The surplus may go from other nodes first.
		count := min(again[u.r], all[u.r]-u.surplus)
		delete(again, u.r)
		for range count {
			sum.pods++
			sum.total.add(&u.r.Unit)
		}
		if count > 0 && !slices.Contains(candidates, u.r) && u.r.Selects(a.pod) {
			candidates = append(slices.Clip(candidates), u.r)
			slices.SortStableFunc(candidates, func(x, y *Reservation) int { return prefer(&a.requests, x, y) })
		}
	}
	if sum.pods == 0 {
		return nil, nil
	}
	return sum, candidates
}
