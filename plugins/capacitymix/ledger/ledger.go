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
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/internal/mix/split"
)

// ErrNoClaim is the error for a pod that does not hold the slot it was scheduled for: it
// was deleted, or another pod that is already bound turned out to hold the slot.
var ErrNoClaim = errors.New("the pod does not hold this slot any more")

// ErrDomainFull is the error for a pod on a node of a domain that has as many replicas as its mix allows by now.
var ErrDomainFull = errors.New("the domain of the node has as many replicas as maxPerDomain allows")

// ErrOutdated is the error for a pod that was resolved by a version of before: its group may be another one.
var ErrOutdated = errors.New("the groups of the namespace may have changed meanwhile")

// ErrGone is the error for a pod that the API server does not have any more.
var ErrGone = errors.New("the pod is gone")

// Ledger is safe for concurrent use. Node, alone, takes no lock.
type Ledger struct {
	// Versions returns the version of now of a namespace. Nil: there is one version. Set before use.
	Versions func(namespace string) Version
	// Wake has pods tried again for which a limit grew. It is called without a lock. Set before use.
	Wake func([]*corev1.Pod)

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
	// avoided is the spot nodes of the domains in quarantine, which are in no side.
	avoided side
	// quarantine is the domains in quarantine, nil for none. It is written under mu.
	quarantine atomic.Pointer[interruptions.Quarantine]
	// quarantineChanges is what QuarantineChanges returns. It is written under mu, after what it counts.
	quarantineChanges atomic.Uint64
	// woken are pods for which a limit grew, until the lock is released.
	woken []*corev1.Pod
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

// Version is what the groups of the pods of a namespace are resolved by. What was resolved by a former one is not written: all pods of the
// namespace may have been moved to other groups since, and this one would be in a group of before.
type Version struct {
	// Mixes is that of the CapacityMixes of the namespace, Changes that of the owners.
	Mixes, Changes uint64
}

// outdated reports whether there is a newer version. The lock that the write is made under is held: the pods are moved after the
// version has changed.
func (l *Ledger) outdated(namespace string, v Version) bool {
	return l.Versions != nil && l.Versions(namespace) != v
}

// Claim requests the slot of a pod that is about to be scheduled.
type Claim struct {
	Pod *corev1.Pod
	// Member is what the pod is in its group.
	governing.Member
	Governing *governing.Mix
	// Wanted is how many replicas the group shall have, 0 where that is not known or does not matter.
	Wanted int
	// Version is that by which the pod was resolved.
	Version Version
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
	Slot int
	// Type is the one that the pod has to run on: that of the slot or, with Fixed, the one that other pods of its unit run on.
	Type    capacity.Type
	Fixed   bool
	Attempt Attempt
	// Limits are nil unless the mix limits domains. Open is set where a pod of the unit has a place in them without a node.
	Limits *Limits
	Open   bool
}

// Claim gives a pending pod the lowest free slot of its group, or confirms the
// one it holds. A pod that has to wait moves down when a lower slot is free:
// the slots that are held stay as close to 0, 1, 2, … as they can. Where pods are
// removed in any order, the types of the slots count, and not their numbers.
// The pods of a unit have one slot.
func (l *Ledger) Claim(c Claim) (Hold, error) {
	l.mu.Lock()
	defer l.unlockFor(c.Pod.UID)
	r := l.pods[c.Pod.UID]
	switch {
	case l.outdated(c.Pod.Namespace, c.Version):
		return Hold{}, ErrOutdated
	case r == nil:
		if !c.Exists() {
			return Hold{}, ErrGone
		}
		r = l.add(c.Pod.UID, c.Member, c.Pod.CreationTimestamp.UnixNano())
	case !r.is(c.Member):
		l.remove(r)
		r = l.add(c.Pod.UID, c.Member, c.Pod.CreationTimestamp.UnixNano())
	}
	g := r.group
	l.govern(g, c.Governing, c.Wanted)
	if r.state == claimed {
		r.pending, r.woken = c.Pod, false
		r.claim(c)
		g.waiting(r.seat)
	}
	t, fixed := g.typeFor(r.seat, r)
	r.fixed = fixed
	return Hold{Slot: g.slotOf(r.seat), Type: t, Fixed: fixed, Attempt: r.tried(), Limits: g.limits, Open: r.seat.open > 0}, nil
}

// is reports whether a record is in a group, and in a unit of it.
func (r *record) is(m governing.Member) bool {
	return r.group.key == m.Group && r.seat.unit() == m.Unit
}

// claim gives a pending pod its slot. Its search for a node starts again when
// it has to run on another type than the one it searched for.
func (r *record) claim(c Claim) {
	g, s := r.group, r.seat
	s.anyOrder = c.AnyOrder
	switch {
	case c.Slot != split.NoSlot:
		g.identify(s, c.Slot)
	case s.settled(), s.doubtful() && s.Slot != split.NoSlot:
	case r.tried().Stage == StageAhead && g.ahead(r):
		return
	case s.Slot == split.NoSlot || s.identity || !c.Keep && !g.keeps(s, c.AnyOrder):
		g.release(s)
		s.identity = false
		g.take(s, g.next(c.AnyOrder))
	}
	if t, _ := g.typeFor(s, r); t != r.seeks {
		r.try(Attempt{TypeChanged: r.seeks != capacity.Unknown})
		r.seeks = t
	}
}

// identify gives a seat the slot that follows from what it is.
func (g *group) identify(s *seat, slot int) {
	g.release(s)
	s.identity, s.Slot = true, slot
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
	defer l.unlockFor(uid)
	r := l.pods[uid]
	if r == nil || r.group.slotOf(r.seat) != slot || r.state != claimed && r.state != ungated {
		return ErrNoClaim
	}
	if err := l.misfit(r, node); err != nil {
		return err
	}
	r.change(func() { r.state, r.brought, r.on = reserved, small(slot), l.nodes.byName[node].Type })
	r.group.refit(r.seat)
	l.place(r, node)
	return nil
}

// straddles reports whether a pod on a node would be on another type than others of its unit.
func (l *Ledger) straddles(r *record, node string) bool {
	t, fixed := r.seat.runsOn(r)
	return fixed && t != l.nodes.byName[node].Type
}

// TypeFor returns the type that a pod with a claim has to run on, Unknown for others.
func (l *Ledger) TypeFor(uid types.UID) capacity.Type {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.pods[uid]
	if r == nil {
		return capacity.Unknown
	}
	t, _ := r.group.typeFor(r.seat, r)
	return t
}

// Lean notes that a pod may have a type from now on, by a write that is about to be sent: others of its unit follow it. It returns false
// if others of its unit run on the other type by now.
func (l *Ledger) Lean(uid types.UID, t capacity.Type) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.pods[uid]
	if r == nil || r.state != claimed {
		return true
	}
	if on, fixed := r.seat.runsOn(r); fixed && on != t {
		return false
	}
	r.change(func() { r.leans = t })
	if r.seat.open == 0 { // what it may get is not decided
		r.seat.confined = nil
	}
	return true
}

// Holds reports whether a pod that is assigned to a node still holds a slot as its own.
func (l *Ledger) Holds(uid types.UID, slot int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.pods[uid]
	return r != nil && r.seat.Slot == slot && !r.seat.unassigned
}

// Doubt notes that the result of a reserved pod's Binding is not known. It must be called before Unreserve.
func (l *Ledger) Doubt(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.pods[uid]; r != nil && r.state == reserved {
		r.change(func() { r.doubt, r.leans = true, r.on })
	}
}

// Unreserve takes a pod from its node and leaves it its claim. It may be called
// any number of times, also for pods that were never reserved. It returns the pending pods of its unit that should be tried again.
func (l *Ledger) Unreserve(uid types.UID) []*corev1.Pod {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.pods[uid]
	if r == nil || r.state != reserved {
		return nil
	}
	l.unreserve(r)
	return slices.DeleteFunc(r.group.wakeRefused(r.group.misled(r.seat)), func(pod *corev1.Pod) bool { return pod.UID == uid })
}

func (l *Ledger) unreserve(r *record) {
	if r.limited != capacity.Unknown {
		r.change(func() { r.state, r.on = ungated, r.limited })
		l.place(r, "")
		return
	}
	r.change(func() {
		if r.state, r.brought, r.on = claimed, split.NoSlot, capacity.Unknown; !r.doubt {
			r.leans = capacity.Unknown
		}
	})
	l.place(r, "")
	r.group.refit(r.seat)
	r.group.waiting(r.seat)
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

// Unit returns the ungated pods of a pod's unit that have no node, the pod itself included, and whether others of it run.
func (l *Ledger) Unit(uid types.UID) (waiting []*corev1.Pod, runs bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.pods[uid]
	if r == nil {
		return nil, false
	}
	for _, o := range r.seat.members(r) {
		switch {
		case o.state == ungated && o.pending != nil:
			waiting = append(waiting, o.pending)
		case o.state != claimed && o != r:
			runs = true
		}
	}
	return waiting, runs
}

// Gone reports whether the ledger has no pod of a UID, or one that runs.
func (l *Ledger) Gone(uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.pods[uid]
	return r == nil || r.state == reserved || r.state == bound
}

// In reports whether a pod is in a group.
func (l *Ledger) In(key governing.GroupKey, uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.pods[uid]
	return r != nil && r.group.key == key
}

// Elsewhere reports whether a pod is in another group, or in another unit of it.
func (l *Ledger) Elsewhere(uid types.UID, m governing.Member) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.pods[uid]
	return r != nil && !r.is(m)
}

// Has reports whether a group has pods.
func (l *Ledger) Has(key governing.GroupKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.groups[key] != nil
}

// SetAttempt records how far the search of a pending pod has come. It is
// ignored if the pod does not hold the slot any more.
func (l *Ledger) SetAttempt(uid types.UID, slot int, a Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.pods[uid]; r != nil && (r.state == claimed || r.state == ungated) && r.group.slotOf(r.seat) == slot {
		r.try(a)
	}
}

// AttemptOf returns how far the search of an ungated pod has come.
func (l *Ledger) AttemptOf(uid types.UID) Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.pods[uid]; r != nil {
		return r.tried()
	}
	return Attempt{}
}

// Size returns how many groups and pods the ledger holds.
func (l *Ledger) Size() (groups, pods int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.groups), len(l.pods)
}

func (l *Ledger) add(uid types.UID, m governing.Member, created int64) *record {
	g := l.groups[m.Group]
	if g == nil {
		g = newGroup(m.Group)
		l.groups[m.Group] = g
	}
	r := &record{uid: uid, created: created, group: g, brought: split.NoSlot, domain: noDomain, zone: noDomain}
	s := g.seatOf(m.Unit)
	switch {
	case s != nil:
	case m.Unit == "":
		s = &r.own
		s.Pod = split.Pod{ID: string(uid), Created: created, Slot: split.NoSlot}
	default:
		s = &seat{
			Pod:  split.Pod{ID: "unit/" + m.Unit, Created: created, Slot: split.NoSlot},
			many: &unit{name: m.Unit, pods: map[types.UID]*record{}},
		}
		if g.units == nil {
			g.units = map[string]*seat{}
		}
		g.units[m.Unit] = s
	}
	if s.empty() {
		g.seats++
	}
	s.join(r)
	l.pods[uid] = r
	g.members[uid] = r
	return r
}

func (l *Ledger) remove(r *record) {
	l.place(r, "")
	r.uncount()
	g, s := r.group, r.seat
	s.leave(r)
	s.update()
	if s.empty() {
		g.seats--
		g.release(s)
		delete(g.units, s.unit())
	} else {
		g.outdated = g.outdated || s.unassigned
		g.refit(s)
	}
	delete(l.pods, r.uid)
	delete(g.members, r.uid)
	if len(g.members) == 0 {
		delete(l.groups, g.key)
	}
}

// govern notes the mix under which a group was last seen. Slots keep their
// numbers whatever the mix is; only pods without a slot of their own, and
// the domains, depend on it. wanted is Claim.Wanted.
func (l *Ledger) govern(g *group, p *governing.Mix, wanted int) {
	if g.mix != p.Mix {
		g.mix, g.outdated = p.Mix, true
		g.recount()
	}
	l.spread(g, p.SpreadSpotOver)
	l.limit(g, p.MaxPerDomain, wanted)
}
