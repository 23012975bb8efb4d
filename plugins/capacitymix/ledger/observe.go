// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// Bound is a pod that runs on a node, or one whose slot and type are settled
// before it has a node: its gate was removed.
type Bound struct {
	UID types.UID
	// Member is what the pod is in its group. Its Slot is the one by identity.
	governing.Member
	Created int64 // Unix time in nanoseconds
	// Node is empty for an ungated pod; Limited is the type that it was limited to,
	// Pending the pod, to wake it.
	Node    string
	Limited capacity.Type
	Pending *corev1.Pod
	// Claimed is the slot on the pod's annotation, mix.NoSlot if none.
	Claimed int
}

// Observed is what comes of a pod that was observed.
type Observed struct {
	// ClaimedBefore is set where the pod held a claim of this scheduler until now.
	ClaimedBefore bool
	// Wake are pods of its unit that wait for a node of another type than the one that they have to run on now.
	Wake []*corev1.Pod
}

// Observe records a bound or ungated pod. The API server has precedence over any claim.
func (l *Ledger) Observe(b Bound) (o Observed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.pods[b.UID]
	if r != nil && !r.is(b.Member) {
		l.remove(r)
		r = nil
	}
	if r == nil {
		r = l.add(b.UID, b.Member, b.Created)
	}
	r.change(func() { r.limited = b.Limited })
	next := ungated
	switch {
	case b.Node != "":
		o.ClaimedBefore = r.state == reserved
		next = bound
	case r.state == reserved:
		return o // it is being bound
	}
	if r.state != next {
		r.attempt = nil
	}
	r.pending = nil
	if next == ungated {
		r.pending = b.Pending
	}
	r.change(func() {
		r.state, r.brought, r.on, r.leans = next, small(b.Claimed), l.typeOf(b.Node, b.Limited), capacity.Unknown
		r.doubt = r.doubt && next != bound
	})
	if b.Slot != split.NoSlot {
		r.group.identify(r.seat, b.Slot)
	} else if r.seat.identity {
		r.seat.identity, r.seat.Slot = false, split.NoSlot
	}
	r.group.refit(r.seat)
	l.place(r, b.Node)
	o.Wake = r.misled()
	return o
}

// typeOf is the type of a node, or the one that a pod without a node is limited to.
func (l *Ledger) typeOf(node string, limited capacity.Type) capacity.Type {
	if node == "" {
		return limited
	}
	return l.nodes.byName[node].Type
}

// misled returns the pending pods of a unit that search on another type than the one that they have to run on now.
func (r *record) misled() (pods []*corev1.Pod) {
	s := r.seat
	if s.many == nil || s.many.settled == len(s.many.pods) {
		return nil
	}
	for _, o := range s.waitingIn(r) {
		if t, _ := r.group.typeFor(s, o); t != o.seeks && o.seeks != capacity.Unknown {
			pods = append(pods, o.pending)
		}
	}
	return pods
}

// Forget removes a pod that is terminating, finished or deleted. It returns the
// pending pods that should be tried again because a lower slot than theirs is
// free now. A pod is returned once until it claims again: two slots that
// come free are for two pods.
func (l *Ledger) Forget(uid types.UID) []*corev1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.pods[uid]
	if r == nil {
		return nil
	}
	g, s, slot := r.group, r.seat, r.seat.Slot
	if s.unassigned || r.woken { // its assignment, whichever it was, is free; or the slot that it was woken for
		slot = split.NoSlot
	}
	l.remove(r)
	if s.identity || !s.empty() {
		return nil
	}
	return g.highestPendingAbove(slot)
}
