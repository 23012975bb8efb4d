// SPDX-License-Identifier: Apache-2.0

// Package ledger keeps, in memory, which pod of which group holds which slot,
// and which node is of which capacity type. It is fed by pod and node events
// and by the scheduling cycle, and every update costs the same however large
// the cluster is.
//
// It holds nothing of its own: bound pods carry their slot as an annotation, so
// a restarted scheduler rebuilds the ledger from the API server. Only claims of
// pods that are not bound yet live here alone, and a pod that lost its claim
// claims again.
package ledger

import (
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// ErrNoClaim is the error for a pod that does not hold the slot it was scheduled for: it
// was deleted, or another pod that is already bound turned out to hold the slot.
var ErrNoClaim = errors.New("the pod does not hold this slot any more")

// ErrGone is the error for a pod that the API server does not have any more.
var ErrGone = errors.New("the pod is gone")

// Ledger is safe for concurrent use. Node, alone, takes no lock.
type Ledger struct {
	classifier *capacity.Classifier
	nodes      nodeTable

	// mu guards all that follows, and writes to nodes.
	mu     sync.Mutex
	pods   map[types.UID]*record
	groups map[governing.GroupKey]*group
	// onNode finds the pods to count again when a node changes its labels.
	onNode  map[string]map[*record]struct{}
	domains keyset // the configured labels
	zones   keyset // the zone label alone
	sides   [numTypes]side
}

// state of a pod in the ledger.
type state uint8

const (
	claimed  state = iota // pending, holds a slot
	ungated               // pending, but its slot and its type are settled: its gate was removed
	reserved              // assumed on a node, its Binding is under way
	bound                 // seen with a node name
)

// record is one pod. Its fields are guarded by Ledger.mu.
type record struct {
	pod   split.Pod // Slot is the pod's own slot, NoSlot while it has none
	uid   types.UID
	group *group
	state state
	// identity: the slot follows from what the pod is; it is not exclusive.
	identity bool
	// unassigned: bound, without a slot of its own or beaten to it; see group.settle.
	unassigned bool
	assignment int // where an unassigned pod sits, unless the group is outdated
	node       string
	// limited is the type that an ungated pod was limited to; it keeps it to its end.
	limited capacity.Type
	// domain is the interruption domain in which the pod is counted, noDomain if
	// in none, or if its group has domains of its own.
	domain  int32
	zone    int32       // the same for its zone
	counted *details    // the node on which group.siblings count it, nil if on none
	pending *corev1.Pod // while claimed or ungated: whom to wake
	// woken: the pod was returned by Forget, and has not claimed since.
	woken bool
	// doubt: a Binding of the pod had no answer, so the API server may have bound it with its slot. Until it is seen, the pod
	// must not take another slot: its own would be given to another pod.
	doubt bool
	// seeks is the type that the pod's own slot is of; while it is tried ahead
	// of its turn (StageAhead), the slot it holds is of the other type.
	seeks   capacity.Type
	attempt Attempt
}

// New returns an empty ledger. spreadOver are the node labels that name an
// interruption domain for groups that do not name their own.
func New(classifier *capacity.Classifier, spreadOver []string) *Ledger {
	l := &Ledger{
		classifier: classifier,
		pods:       map[types.UID]*record{},
		groups:     map[governing.GroupKey]*group{},
		onNode:     map[string]map[*record]struct{}{},
		domains:    newKeyset(spreadOver...),
		zones:      newKeyset(corev1.LabelTopologyZone),
	}
	l.nodes.byName = map[string]Node{}
	l.nodes.flat.Store(newFlatTable(nil))
	return l
}

// Claim requests the slot of a pod that is about to be scheduled.
type Claim struct {
	Pod       *corev1.Pod
	Group     governing.GroupKey
	Governing *governing.Mix
	// Slot is the pod's identity slot, mix.NoSlot if it has none.
	Slot int
	// AnyOrder: the pod's owner removes its pods in any order.
	AnyOrder bool
	// Keep keeps the slot that the pod claimed before, even if a lower one is free:
	// the pod is nominated to a node of its type.
	Keep bool
	// Exists reports whether the API server has the pod. It is called once, for a
	// pod that is not in the ledger yet: a pod whose deletion was handled before
	// would hold its slot indefinitely.
	Exists func() bool
}

// Hold is what a pod holds.
type Hold struct {
	Slot    int
	Attempt Attempt
}

// Claim gives a pending pod the lowest free slot of its group, or confirms the
// one it holds. A pod that has to wait moves down when a lower slot is free:
// the slots that are held stay as close to 0, 1, 2, … as they can. Where pods are
// removed in any order, the types of the slots count, and not their numbers.
func (l *Ledger) Claim(c Claim) (Hold, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.pods[c.Pod.UID]
	switch {
	case r == nil:
		if !c.Exists() {
			return Hold{}, ErrGone
		}
		r = l.add(c.Pod.UID, c.Group, c.Pod.CreationTimestamp.UnixNano())
	case r.group.key != c.Group:
		l.remove(r)
		r = l.add(c.Pod.UID, c.Group, c.Pod.CreationTimestamp.UnixNano())
	}
	g := r.group
	l.govern(g, c.Governing)
	if r.state != claimed {
		return Hold{Slot: r.pod.Slot, Attempt: r.attempt}, nil
	}
	r.pending, r.woken = c.Pod, false
	r.claim(c)
	g.waiting(r)
	return Hold{Slot: r.pod.Slot, Attempt: r.attempt}, nil
}

// claim gives a pending pod its slot. Its search for a node starts again when
// the slot is of another type than the one it searched for.
func (r *record) claim(c Claim) {
	g := r.group
	switch {
	case c.Slot != split.NoSlot:
		g.release(r)
		r.identity, r.pod.Slot = true, c.Slot
	case r.doubt && r.pod.Slot != split.NoSlot:
	case r.attempt.Stage == StageAhead && g.ahead(r):
		return
	case r.pod.Slot == split.NoSlot || !c.Keep && !g.keeps(r, c.AnyOrder):
		g.release(r)
		r.identity = false
		g.take(r, g.next(c.AnyOrder))
	}
	if t := g.mix.TypeOf(r.pod.Slot); t != r.seeks {
		r.seeks, r.attempt = t, Attempt{TypeChanged: r.seeks != capacity.Unknown}
	}
}

// Drop forgets a pending pod that no mix governs any more. It does nothing to
// pods that are reserved or bound.
func (l *Ledger) Drop(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.pods[uid]; r != nil && r.state == claimed {
		l.remove(r)
	}
}

// Reserve confirms that a pod still holds a slot and assigns it to a node.
func (l *Ledger) Reserve(uid types.UID, slot int, node string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.pods[uid]
	if r == nil || r.pod.Slot != slot || r.state != claimed && r.state != ungated {
		return ErrNoClaim
	}
	r.state = reserved
	l.place(r, node)
	return nil
}

// Holds reports whether a pod that is assigned to a node still holds a slot as its own.
func (l *Ledger) Holds(uid types.UID, slot int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.pods[uid]
	return r != nil && r.pod.Slot == slot && !r.unassigned
}

// Doubt notes that the result of a reserved pod's Binding is not known. It must be called before Unreserve.
func (l *Ledger) Doubt(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.pods[uid]; r != nil && r.state == reserved {
		r.doubt = true
	}
}

// Unreserve takes a pod from its node and leaves it its claim. It may be called
// any number of times, also for pods that were never reserved.
func (l *Ledger) Unreserve(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.pods[uid]
	if r == nil || r.state != reserved {
		return
	}
	if r.limited != capacity.Unknown {
		r.state = ungated
		l.place(r, "")
		return
	}
	r.state = claimed
	l.place(r, "")
	if r.unassigned || r.group.successor(r.pod.Slot) != nil {
		// Another pod was bound with the same slot meanwhile.
		r.group.release(r)
	}
	r.group.waiting(r)
}

// Bound is a pod that runs on a node, or one whose slot and type are settled
// before it has a node: its gate was removed.
type Bound struct {
	UID     types.UID
	Group   governing.GroupKey
	Created int64 // Unix time in nanoseconds
	// Node is empty for an ungated pod; Limited is the type that it was limited to,
	// Pending the pod, to wake it.
	Node    string
	Limited capacity.Type
	Pending *corev1.Pod
	// Slot is the slot on the pod's annotation or by its identity, mix.NoSlot if none.
	Slot     int
	Identity bool
}

// Observe records a bound or ungated pod. The API server has precedence over any claim. It
// reports whether the pod held a claim of this scheduler until now.
func (l *Ledger) Observe(b Bound) (claimedBefore bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.pods[b.UID]
	if r != nil && r.group.key != b.Group {
		l.remove(r)
		r = nil
	}
	if r == nil {
		r = l.add(b.UID, b.Group, b.Created)
	}
	r.limited = b.Limited
	switch {
	case b.Node != "":
		claimedBefore = r.state == reserved
		r.state, r.attempt, r.doubt = bound, Attempt{}, false
	case r.state == reserved:
		return false // it is being bound
	case r.state != ungated:
		r.state, r.attempt = ungated, Attempt{}
	}
	r.pending = nil
	if r.state == ungated {
		r.pending = b.Pending
	}
	l.place(r, b.Node)
	r.hold(b.Slot, b.Identity)
	return claimedBefore
}

// hold gives a record the slot that is on its pod, or that its pod is created with.
func (r *record) hold(slot int, identity bool) {
	switch {
	case identity:
		r.group.release(r)
		r.identity, r.pod.Slot = true, slot
	case r.unassigned && slot == r.pod.Slot, r.pod.Slot == slot && slot != split.NoSlot && !r.identity:
		// Holds it, or waits for it, already.
	default:
		r.group.release(r)
		r.identity = false
		r.group.assign(r, slot)
	}
}

// Forget removes a pod that is terminating, finished or deleted. It returns a
// pending pod that should be tried again because a lower slot than its own is
// free now, or nil. A pod is returned once until it claims again: two slots that
// come free are for two pods.
func (l *Ledger) Forget(uid types.UID) *corev1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.pods[uid]
	if r == nil {
		return nil
	}
	g, slot := r.group, r.pod.Slot
	if r.unassigned || r.woken { // its assignment, whichever it was, is free; or the slot that it was woken for
		slot = split.NoSlot
	}
	l.remove(r)
	if r.identity {
		return nil
	}
	return g.highestPendingAbove(slot)
}

// Pending returns the pods of a namespace that hold a claim, or were ungated, and
// are not bound, for all namespaces if it is empty.
func (l *Ledger) Pending(namespace string) []*corev1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	var pods []*corev1.Pod
	for key, g := range l.groups {
		if namespace == "" || key.Namespace == namespace {
			pods = g.pending(pods)
		}
	}
	return pods
}

// PendingOf returns the pods of a group that hold a claim and are not bound.
func (l *Ledger) PendingOf(key governing.GroupKey) []*corev1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.groups[key]; g != nil {
		return g.pending(nil)
	}
	return nil
}

// SetAttempt records how far the search of a pending pod has come. It is
// ignored if the pod does not hold the slot any more.
func (l *Ledger) SetAttempt(uid types.UID, slot int, a Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.pods[uid]; r != nil && (r.state == claimed || r.state == ungated) && r.pod.Slot == slot {
		r.attempt = a
	}
}

// AttemptOf returns how far the search of an ungated pod has come.
func (l *Ledger) AttemptOf(uid types.UID) Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.pods[uid]; r != nil {
		return r.attempt
	}
	return Attempt{}
}

// Size returns how many groups and pods the ledger holds.
func (l *Ledger) Size() (groups, pods int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.groups), len(l.pods)
}

func (l *Ledger) add(uid types.UID, key governing.GroupKey, created int64) *record {
	g := l.groups[key]
	if g == nil {
		g = newGroup(key)
		l.groups[key] = g
	}
	r := &record{
		pod:   split.Pod{ID: string(uid), Created: created, Slot: split.NoSlot},
		uid:   uid,
		group: g, domain: noDomain, zone: noDomain,
	}
	l.pods[uid] = r
	g.members[uid] = r
	return r
}

func (l *Ledger) remove(r *record) {
	l.place(r, "")
	r.group.release(r)
	delete(l.pods, r.uid)
	delete(r.group.members, r.uid)
	if len(r.group.members) == 0 {
		delete(l.groups, r.group.key)
	}
}

// govern notes the mix under which a group was last seen. Slots keep their
// numbers whatever the mix is; only pods without a slot of their own, and
// the interruption domains, depend on it.
func (l *Ledger) govern(g *group, p *governing.Mix) {
	if g.mix != p.Mix {
		g.mix, g.outdated = p.Mix, true
		g.recount()
	}
	l.spread(g, p.SpreadSpotOver)
}

// place moves a pod to a node, "" for none, and counts it there.
func (l *Ledger) place(r *record, node string) {
	r.uncount()
	if r.node != node {
		l.move(r, node)
	}
	n := l.nodes.byName[node] // of unknown type if it is not known
	on := n.Type
	if node == "" {
		on = r.limited
	}
	if r.pod.On != on {
		r.pod.On = on
		r.group.outdated = r.group.outdated || r.unassigned
	}
	r.count(n)
}

// move changes the node of a pod in the indexes.
func (l *Ledger) move(r *record, node string) {
	r.group.onHost(r.node, -1)
	r.group.onHost(node, 1)
	if on := l.onNode[r.node]; on != nil {
		delete(on, r)
		if len(on) == 0 {
			delete(l.onNode, r.node)
		}
	}
	r.node = node
	if node != "" {
		if l.onNode[node] == nil {
			l.onNode[node] = map[*record]struct{}{}
		}
		l.onNode[node][r] = struct{}{}
	}
}

// count counts a pod in the domain, if it is a spot node's, and in the zone of its node.
func (r *record) count(n Node) {
	switch {
	case n.Type != capacity.Spot:
	case r.group.own != nil:
		r.group.own.add(r, n.labels)
	default:
		r.domain = n.domain
		r.group.domains = oneMore(r.group.domains, r.domain)
	}
	if n.details != nil {
		r.zone = n.zoneNumber
		r.group.zones = oneMore(r.group.zones, r.zone)
	}
	if r.group.siblings != nil {
		r.group.siblings.add(r, n.details)
	}
}

func (r *record) uncount() {
	if r.group.own != nil {
		r.group.own.remove(r)
	}
	if r.domain != noDomain {
		r.group.domains[r.domain]--
		r.domain = noDomain
	}
	if r.zone != noDomain {
		r.group.zones[r.zone]--
		r.zone = noDomain
	}
	if r.group.siblings != nil {
		r.group.siblings.remove(r)
	}
}
