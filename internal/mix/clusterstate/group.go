// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/replacement"
	"berth.dev/berth/internal/mix/split"
)

// Workload names what users call a workload.
type Workload struct {
	// Kind is Deployment, StatefulSet, Job, … ; Pod for the bare pods of a mix.
	Kind, Namespace, Name string
	// APIVersion of the kind, such as apps/v1.
	APIVersion string
	// Revision is the name of the ReplicaSet where a Deployment owns it.
	Revision string
	// UID is that of the workload, "" for bare pods.
	UID types.UID
}

// String is "Deployment web (web-7dd8c6474c)".
func (w Workload) String() string {
	if w.Revision == "" {
		return w.Kind + " " + w.Name
	}
	return w.Kind + " " + w.Name + " (" + w.Revision + ")"
}

// Reference is what events about the workload name.
func (w Workload) Reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: w.APIVersion, Kind: w.Kind, Namespace: w.Namespace, Name: w.Name, UID: w.UID}
}

// Place is the state of a pod of a group.
type Place int

// A pod is settled on a node that stays, on a departing node, or has no node.
const (
	Settled Place = iota
	Departing
	Pending
)

// Assignment is a live replica of a group on its slot: a pod, or a unit of pods.
type Assignment struct {
	split.Assignment
	// Pod is the oldest pod, or the leader of a unit.
	Pod *Pod
	// Unit is the name of a unit, "" for a pod alone, and Pods are all of its pods, the oldest first, nil for a pod alone.
	Unit  string
	Pods  []*Pod
	Place Place
	// Cause is why the node of a pod alone departs, "" if it does not.
	Cause capacity.Cause
}

// Size is how many pods a unit has once it is whole, as its operator has noted; 0 if that is not known.
func (a *Assignment) Size() int {
	if a.Unit == "" {
		return 0
	}
	return governing.SetWith(a.Pod.Labels, a.Pod.Owner).SizeOf(a.Pod.Annotations)
}

// Members are the pods of a replica, the oldest first.
func (a *Assignment) Members() []*Pod {
	if a.Pods == nil {
		return []*Pod{a.Pod}
	}
	return a.Pods
}

// Has reports whether a pod belongs to a replica.
func (a *Assignment) Has(uid types.UID) bool {
	return a.Pod.UID == uid || slices.ContainsFunc(a.Pods, func(p *Pod) bool { return p.UID == uid })
}

// Group is the pods that one mix divides together, in general one revision of a workload, at one moment. It is a
// value: nothing in it changes afterwards. Its replicas are pods, or units of pods.
type Group struct {
	Key governing.GroupKey
	// Version is another one whenever something about the group may have changed. It is never 0.
	Version   uint64
	Workload  Workload
	Governing *governing.Mix
	// Replicas is how many the revision shall have; where its controller
	// does not report that, how many live pods it has.
	Replicas int
	// Counted is set where the owner reports Replicas; otherwise it is the number of live pods.
	Counted bool
	// Ended is set where the owner makes no more pods. EndedOwners are those of a group of many owners of which some make pods, nil
	// for none.
	Ended       bool
	EndedOwners map[types.UID]bool
	// CountsFailures is set where the owner counts an evicted pod as failed, as a Job does.
	CountsFailures bool
	// MinReady is how long a pod must have been Ready to be available, as the owner has it; 0 where it has no such field.
	MinReady time.Duration
	// FixedNode is the nodeName of the owner's pod template, "" for none: no scheduler places a replacement.
	FixedNode string
	// Assignments are the live replicas, sorted by slot. One that is pending or on a
	// departing node counts as being on the type of its slot: there it, or its
	// replacement, goes next. One whose gate was removed goes where it was limited to.
	Assignments []Assignment
	Rollout     Rollout
	// Taken are slots that other live pods of the same owner hold, which this mix does not govern.
	Taken []int
	// SchedulerName is that of the pod template, or of the newest pod.
	SchedulerName string
	// Gated is set where new pods have the scheduling gate, so that their place is kept whichever scheduler they name.
	Gated bool
	// SpreadByType is set where new pods select no type themselves, and have a hard topology spread that counts only the nodes
	// which they select.
	SpreadByType bool
	// Owners is how many controllers the pods have.
	Owners int
	// Units is set where replicas are units of pods.
	Units bool
	// AnyOrder is set where replicas are removed in an order that does not follow their slots.
	AnyOrder bool
	// Identity is set where slots come with the pods' names or indexes: a replacement has its predecessor's slot.
	Identity bool
	// Terminating pods hold no slot; they only show that something goes on.
	Terminating int
	// Leaving are the pods that were released from the group and still run beside their replacements.
	Leaving []types.UID
	// Recreate is set where the workload is a Deployment whose strategy lets no two revisions run together.
	Recreate bool
}

// Actual counts the settled pods by the type that they run on.
func (g *Group) Actual() split.Count {
	var c split.Count
	for _, s := range g.Assignments {
		if s.Place == Settled {
			c.Add(s.On)
		}
	}
	return c
}

// Counts returns how many replicas have no node yet, or no pod, how many are on
// departing nodes, and how many are settled.
func (g *Group) Counts() (pending, departing, settled int) {
	for _, s := range g.Assignments {
		switch s.Place {
		case Pending:
			pending++
		case Departing:
			departing++
		default:
			settled++
		}
	}
	return pending + max(0, g.Replicas-len(g.Assignments)), departing, settled
}

// PendingByType counts the replicas without a node by the type that they wait
// for: the one that they were limited to when their gate was removed, else that of their slot. Those that
// have no pod yet will take the lowest free slots.
func (g *Group) PendingByType() split.Count {
	var c split.Count
	slots := make([]int, len(g.Assignments))
	for i := range g.Assignments {
		s := &g.Assignments[i]
		if slots[i] = s.Slot; s.Place == Pending {
			c.Add(s.On)
		}
	}
	missing := g.Governing.Mix.Missing(g.Replicas-len(g.Assignments), slots)
	c.Spot, c.OnDemand = c.Spot+missing.Spot, c.OnDemand+missing.OnDemand
	return c
}

// Borrowed counts the settled pods that run on the other type than their slot's.
func (g *Group) Borrowed() (n int) {
	for _, s := range g.Assignments {
		if s.Place == Settled && s.Borrowed() {
			n++
		}
	}
	return n
}

// Ungated reports whether an autoscaler launches nodes for new pods of the group without regard to the mix: they have no
// scheduling gate, and name neither a capacity type nor a node themselves.
func (g *Group) Ungated() bool {
	return !g.Gated && !g.Ended && g.FixedNode == "" && slices.ContainsFunc(g.Assignments, func(s Assignment) bool { return !s.Pod.Pinned })
}

// SpreadsByType reports whether a hard topology spread holds for each capacity type on its own, and not for the whole group.
func (g *Group) SpreadsByType() bool {
	return g.Gated && g.SpreadByType && !g.Ended && g.Governing.Mix.Spot(g.Replicas) > 0 && g.Governing.Mix.OnDemand(g.Replicas) > 0
}

// Satisfied reports whether the group has exactly its mix, with every replica in place.
func (g *Group) Satisfied() bool {
	c := g.Actual()
	return c.Total() == g.Replicas && g.Governing.Mix.Exact(c)
}

// WrongSide returns the fewest settled pods that have to move for the group to
// have its mix once nothing is pending, missing or departing any more, in the
// order in which they should.
func (g *Group) WrongSide() []Assignment {
	if g.right() {
		return nil
	}
	assignments := make([]split.Assignment, len(g.Assignments))
	byID := make(map[string]Assignment, len(g.Assignments))
	for i, s := range g.Assignments {
		assignments[i] = s.Assignment
		byID[s.ID] = s
	}
	// Without the replicas that have no pod yet, the group would be measured by the split of a smaller one.
	var wrong []Assignment
	for _, s := range split.WrongSide(g.Governing.Mix, assignments, g.Replicas-len(g.Assignments)) {
		if assignment, there := byID[s.ID]; there && assignment.Place == Settled {
			wrong = append(wrong, assignment)
		}
	}
	return wrong
}

// right reports whether WrongSide is empty, which is so of most groups.
func (g *Group) right() bool {
	if len(g.Assignments) < g.Replicas {
		return false // the others count as well
	}
	var c split.Count
	for i := range g.Assignments {
		c.Add(g.Assignments[i].On)
	}
	return g.Governing.Mix.Exact(c)
}

// Joiner gives slots to pods that join the group as the scheduler does, once the replicas have gone for which gone is true.
func (g *Group) Joiner(gone func(*Assignment) bool) *split.Joiner {
	var taken split.Slots
	for _, slot := range g.Taken {
		taken.Take(slot)
	}
	for i := range g.Assignments {
		if s := &g.Assignments[i]; gone == nil || !gone(s) {
			taken.Take(s.Slot)
		}
	}
	return split.NewJoiner(g.Governing.Mix, &taken)
}

// Going returns the group as it is once some of its pods have gone, by UID, and
// their replacements are pending: on the slots where the scheduler puts them, or
// where slots come with identity on the same ones.
// It is for pods that were evicted when the watch has not delivered that yet.
func (g Group) Going(uids map[types.UID]bool) Group {
	assignments := slices.Clone(g.Assignments)
	going := func(s *Assignment) bool {
		return s.Place != Pending && slices.ContainsFunc(s.Members(), func(p *Pod) bool { return uids[p.UID] })
	}
	joiner := g.Joiner(func(s *Assignment) bool { return !g.Identity && going(s) })
	for i := range assignments {
		s := &assignments[i]
		if !going(s) {
			continue
		}
		if !g.Identity {
			s.Slot = joiner.Join(g.AnyOrder)
			s.Wants = g.Governing.Mix.TypeOf(s.Slot)
		}
		s.Place, s.On = Pending, s.Wants
	}
	slices.SortFunc(assignments, func(a, b Assignment) int { return cmp.Compare(a.Slot, b.Slot) })
	g.Assignments = assignments
	return g
}

// Contains reports whether a pod, as the API server has it, is one that a group has: in the group, and under the same mix.
func (st *State) Contains(g *Group, o *corev1.Pod) bool {
	st.mu.RLock()
	defer st.mu.RUnlock()
	mix, _ := st.mixOf(o)
	if mix == nil || keyOfMix(g.Governing) != keyOfMix(mix) || gate.HasOthers(o) {
		return false
	}
	member, ok := st.resolver.Member(o, mix)
	return ok && member.Group == g.Key
}

// Resolve returns the mix that governs a pod, nil if none does, with the
// annotations that could not be read.
func (st *State) Resolve(p *Pod) (*governing.Mix, []governing.InvalidAnnotation) {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.mixOf(p.Object())
}

// mixOf is Resolve with the lock held, for a pod as an object.
func (st *State) mixOf(o *corev1.Pod) (*governing.Mix, []governing.InvalidAnnotation) {
	found, invalid := st.resolver.Resolve(o)
	if found == nil {
		found = governing.DefaultOf(o, st.Defaults)
	}
	return found, invalid
}

// group builds a group of its parts, if a mix governs it; st.mu is locked to write.
func (st *State) group(key governing.GroupKey, parts []*part) (Group, bool) {
	g := Group{Key: key, Version: st.nextVersion()}
	live, mix, others := governed(parts)
	if g.Governing = mix; mix == nil || key.ID == "" {
		return g, false
	}
	if len(others) > 0 {
		g.Taken = st.slotsOf(others)
	}
	newest := live[len(live)-1]
	newest.Into(&st.scratch)
	member, _ := st.resolver.Member(&st.scratch, mix)
	g.Identity, g.AnyOrder = member.Slot != split.NoSlot, member.AnyOrder
	g.SchedulerName, g.Gated, g.SpreadByType = newest.SchedulerName, newest.UsesGate, newest.SpreadByType
	st.describe(&g, newest)
	if top := st.object(key.Namespace, g.Workload.UID); top != nil {
		g.Recreate = top.recreate
	}
	if len(st.released[key.Namespace]) > 0 {
		g.Leaving = st.leaving(key.Namespace, key.ID)
	}
	seats := st.seatsOf(mix, live)
	g.Units = slices.ContainsFunc(seats, func(s seat) bool { return s.unit != "" })
	st.demand(&g, parts)
	g.Assignments = st.assignments(mix.Mix, seats, g.Units, g.unchanging())
	clear(seats) // which are kept for the next group
	if !g.Counted {
		g.Replicas = len(g.Assignments)
	}
	return g, true
}

// describe names the workload of a group, as its newest pod has it.
func (st *State) describe(g *Group, newest *Pod) {
	if o := st.resolver.Named(&st.scratch, g.Governing); o != nil {
		g.Workload = Workload{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: g.Key.Namespace, Name: o.Name, UID: o.UID}
		if top := st.object(g.Key.Namespace, o.UID); top != nil {
			g.Rollout = top.rollout
		}
		return
	}
	g.Workload, g.Rollout = st.workload(g.Key.Namespace, newest.Owner, st.object(g.Key.Namespace, newest.Owner.UID))
}

// demand adds what the controllers of the pods of a group have of it. Of more than one, the most careful value counts: a group ends
// with the last one, its pods are available when those of each are, and it is in a rollout while one of them is.
func (st *State) demand(g *Group, parts []*part) {
	// A controller counts pods, and of several controllers one that has no live pod for a moment is not among the parts.
	g.Ended, g.Counted = true, !g.Units && len(parts) == 1 && ofController(g.Key, parts[0].of.owner)
	for _, p := range parts {
		if p.governedBy(g.Governing) == 0 {
			continue // its pods only share the slots
		}
		g.Terminating += p.terminating
		owner := st.object(g.Key.Namespace, p.of.owner)
		g.CountsFailures = g.CountsFailures || p.runsOnce() && (owner == nil || !owner.toleratesEvictions)
		if p.of.owner != "" {
			g.Owners++
		}
		if owner == nil {
			g.Ended, g.Counted = false, false
			continue
		}
		g.end(owner, len(parts) > 1)
		g.FixedNode, g.MinReady = cmp.Or(g.FixedNode, owner.node), max(g.MinReady, owner.minReady)
		ref := p.live[0].Owner
		_, r := st.workload(g.Key.Namespace, ref, owner)
		g.Rollout = g.Rollout.with(r)
		if owner.asked < 0 || !replacement.MakerOf(ref).Counts() {
			g.Counted = false
			continue
		}
		g.Replicas += max(0, owner.asked-(liveOf(p.of)-p.governedBy(g.Governing))-st.heldOf(p))
	}
}

// end notes whether a controller of the pods makes no more of them.
func (g *Group) end(owner *Owner, oneOfMany bool) {
	ended := owner.ended || owner.asked == 0
	if g.Ended = g.Ended && ended; !ended || !oneOfMany {
		return
	}
	if g.EndedOwners == nil {
		g.EndedOwners = map[types.UID]bool{}
	}
	g.EndedOwners[owner.UID] = true
}

// ofController reports whether a group is that of one controller, or of a role of its pods.
func ofController(key governing.GroupKey, owner types.UID) bool {
	rest, ok := strings.CutPrefix(key.ID, string(owner))
	return owner != "" && ok && (rest == "" || rest[0] == '/')
}

// with returns the rollout of two workloads: what is left of the maxUnavailable of each counts.
func (r Rollout) with(o Rollout) Rollout {
	switch {
	case !o.Rolling:
		return r
	case !r.Rolling:
		return o
	}
	if o.MaxUnavailable-o.Unavailable < r.MaxUnavailable-r.Unavailable {
		r.Unavailable, r.MaxUnavailable = o.Unavailable, o.MaxUnavailable
	}
	r.Stuck = r.Stuck && o.Stuck
	return r
}

// unchanging is how many replicas there are to be of a workload that nothing is about to change, 0 of others. A ReplicaSet
// that has made a pod too many deletes one that is not Ready, not the one with the highest slot: its slot stays free, and the
// next scale-down would not be exact.
func (g *Group) unchanging() int {
	if !g.Counted || g.Rollout.Rolling || g.Terminating > 0 || g.Identity || g.CountsFailures || len(g.Taken) > 0 {
		return 0
	}
	return g.Replicas
}

// nextVersion is the version of a group that is composed now; st.mu is locked to write.
func (st *State) nextVersion() uint64 {
	st.versions++
	return st.versions
}

// workload names the owner of a controller, and its rollout.
func (st *State) workload(namespace string, ref *metav1.OwnerReference, owner *Owner) (Workload, Rollout) {
	w := Workload{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: namespace, Name: ref.Name, UID: ref.UID}
	if owner == nil {
		return w, Rollout{}
	}
	above := metav1.GetControllerOfNoCopy(owner)
	switch {
	case !replacement.MakerOf(ref).Counts(): // the rollout is that of other pods
		return w, Rollout{}
	case ref.Kind != "ReplicaSet" || above == nil:
		return w, owner.rollout
	}
	w = Workload{APIVersion: above.APIVersion, Kind: above.Kind, Namespace: namespace, Name: above.Name, Revision: ref.Name, UID: above.UID}
	if top := st.object(namespace, above.UID); top != nil {
		return w, top.rollout
	}
	return w, Rollout{}
}

// Above names the top of a pod's controllers: the Deployment of
// its ReplicaSet, the CronJob of its Job, else its controller, else the pod.
func (st *State) Above(p *Pod) Workload {
	if p.Owner == nil {
		return Workload{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
	}
	st.mu.RLock()
	defer st.mu.RUnlock()
	ref := p.Owner
	if owner := st.object(p.Namespace, ref.UID); owner != nil {
		if top := metav1.GetControllerOfNoCopy(owner); top != nil {
			ref = top
		}
	}
	return Workload{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: p.Namespace, Name: ref.Name, UID: ref.UID}
}

func older(a, b *Pod) int {
	return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.UID, b.UID))
}
