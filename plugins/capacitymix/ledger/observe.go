// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/domains"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// Bound is a pod that runs on a node, or one whose slot and type are settled
// before it has a node: its gate was removed.
type Bound struct {
	UID types.UID
	// Member is what the pod is in its group. Its Slot is the one by identity.
	governing.Member
	// Version is that by which the pod was resolved.
	Version Version
	Created int64 // Unix time in nanoseconds
	// Node is empty for an ungated pod; Limited is the type that it was limited to,
	// Pending the pod, to wake it.
	Node    string
	Limited capacity.Type
	Pending *corev1.Pod
	// Claimed is the slot on the pod's annotation, mix.NoSlot if none.
	Claimed int
	// Confined is which domains an ungated pod may get.
	Confined domains.Confinement
}

// Observed is what comes of a pod that was observed.
type Observed struct {
	// Outdated is set where the pod was not recorded: it has to be resolved again.
	Outdated bool
	// ClaimedBefore is set where the pod held a claim of this scheduler until now.
	ClaimedBefore bool
	// Wake are pods of its unit that wait for a node of another type than the one that they have to run on now, and one that is held
	// because pods without a node could fill its domains.
	Wake []*corev1.Pod
}

// Observe records a bound or ungated pod. The API server has precedence over any claim.
func (l *Ledger) Observe(b Bound) (o Observed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.outdated(b.Group.Namespace, b.Version) {
		return Observed{Outdated: true}
	}
	r := l.pods[b.UID]
	if r != nil && !r.is(b.Member) {
		o.Wake = l.leaves(r)
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
	o.Wake = r.arrive(next, &b, o.Wake)
	r.change(func() {
		r.state, r.brought, r.on, r.leans = next, small(b.Claimed), l.typeOf(b.Node, b.Limited), capacity.Unknown
		r.doubt = r.doubt && next != bound
	})
	r.group.identifyAs(r.seat, b.Slot)
	r.group.refit(r.seat)
	l.place(r, b.Node)
	o.Wake = append(o.Wake, r.group.misled(r.seat)...)
	return o
}

// arrive has a pod search no more once it is seen in another state, and adds the pod to wake that can take its place in other domains.
func (r *record) arrive(next state, b *Bound, wake []*corev1.Pod) []*corev1.Pod {
	if r.state != next {
		r.attempt = nil
	}
	r.pending = nil
	if next == ungated {
		r.pending = b.Pending
		r.confine(b.Confined)
		return wake
	}
	if r.state != bound && b.Limited != capacity.Unknown { // a place that it could have taken in another domain is free
		return r.group.wakeRefused(wake)
	}
	return wake
}

// identifyAs gives a seat the slot that follows from what it is, NoSlot for none.
func (g *group) identifyAs(s *seat, slot int) {
	switch {
	case slot != split.NoSlot:
		g.identify(s, slot)
	case s.identity:
		s.identity, s.Slot = false, split.NoSlot
	}
}

// Writing reports whether the slot of a pod is being written, by a Binding or as the pod is ungated.
func (l *Ledger) Writing(uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.pods[uid]
	return r != nil && r.writing()
}

func (r *record) writing() bool {
	return r.state == reserved || r.state == claimed && r.leans != capacity.Unknown
}

// Follow moves a pod whose slot is being written to another group, with its slot and its node. It returns the pending pods of the former
// group that should be tried again.
func (l *Ledger) Follow(uid types.UID, m governing.Member, v Version) (wake []*corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.pods[uid]
	if r == nil || !r.writing() || r.is(m) || l.outdated(m.Group.Namespace, v) {
		return nil
	}
	was, slot := *r, r.group.slotOf(r.seat)
	wake = l.leaves(r)
	r = l.add(uid, m, was.created)
	r.pending, r.seeks, r.attempt = was.pending, was.seeks, was.attempt
	r.change(func() {
		r.state, r.brought, r.on, r.leans, r.limited, r.doubt = was.state, was.brought, was.on, was.leans, was.limited, was.doubt
	})
	if r.seat.open == 0 {
		r.seat.confined = was.seat.confined
	}
	switch g, s := r.group, r.seat; {
	case m.Slot != split.NoSlot:
		g.identify(s, m.Slot)
	case s.settled():
	case s.Slot == split.NoSlot && !g.inUse().Has(slot):
		g.take(s, slot)
		g.waiting(s)
	}
	r.group.refit(r.seat)
	l.place(r, was.node)
	return wake
}

// typeOf is the type of a node, or the one that a pod without a node is limited to.
func (l *Ledger) typeOf(node string, limited capacity.Type) capacity.Type {
	if node == "" {
		return limited
	}
	return l.nodes.byName[node].Type
}

// misled returns the pending pods of a unit that search on another type than the one that they have to run on now, or that others of
// the unit keep from borrowing no longer.
func (g *group) misled(s *seat) (pods []*corev1.Pod) {
	if s.many == nil || s.many.settled == len(s.many.pods) {
		return nil
	}
	for _, o := range s.waitingIn(nil) {
		t, fixed := g.typeFor(s, o)
		if o.seeks != capacity.Unknown && (t != o.seeks || o.fixed && !fixed) {
			pods = append(pods, o.pending)
		}
	}
	return pods
}

// Forget removes a pod that is terminating, finished or deleted. It returns the
// pending pods that should be tried again: because a slot that they would take is
// free now, or because their unit ran where the pod did. A pod is returned once for a slot until it claims again: two slots that
// come free are for two pods.
func (l *Ledger) Forget(uid types.UID) []*corev1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.pods[uid]; r != nil {
		return l.leaves(r)
	}
	return nil
}

// leaves removes a pod from its group, and returns the pods that should be tried again.
func (l *Ledger) leaves(r *record) []*corev1.Pod {
	g, s, slot := r.group, r.seat, r.seat.Slot
	if s.unassigned || r.woken { // its assignment, whichever it was, is free; or the slot that it was woken for
		slot = split.NoSlot
	}
	l.remove(r)
	return g.wakeRefused(g.freed(s, slot))
}

// freed returns the pods that should be tried again after a pod of a seat left, which had a slot of its own.
func (g *group) freed(s *seat, slot int) []*corev1.Pod {
	switch {
	case s.identity:
		return nil
	case !s.empty():
		return g.misled(s)
	}
	if pods := g.misplaced(); pods != nil {
		return pods
	}
	return g.highestPendingAbove(slot)
}

// misplaced returns the pods of the pending seat with the highest slot of those that would get another one, and were not woken yet,
// where pods are removed in any order: whichever slot comes free, it changes the type that is missing.
func (g *group) misplaced() []*corev1.Pod {
	if g.topPending == split.NoSlot {
		return nil
	}
	highest, waits := g.highestByType()
	if !waits {
		g.topPending = split.NoSlot
	}
	var top *record
	for _, r := range highest { // of a type, those with a lower slot keep theirs if this one does
		if r != nil && !g.keeps(r.seat, true) && (top == nil || r.seat.Slot > top.seat.Slot) {
			top = r
		}
	}
	if top == nil {
		return nil
	}
	return top.wake()
}

// highestByType returns, for each type, a pod of the pending seat with the highest slot of that type where pods are removed in any
// order, of those that were not woken yet. waits is false if no pod of the group waits.
func (g *group) highestByType() (highest [numTypes]*record, waits bool) {
	for _, r := range g.members {
		s := r.seat
		if s.settled() || r.pending == nil {
			continue
		}
		if waits = true; !s.anyOrder || s.identity || s.Slot == split.NoSlot || r.woken {
			continue
		}
		if top := &highest[g.mix.TypeOf(s.Slot)]; *top == nil || s.Slot > (*top).seat.Slot {
			*top = r
		}
	}
	return highest, waits
}
