// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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

// Assignment is a live pod of a group on its slot.
type Assignment struct {
	split.Assignment
	Pod   *Pod
	Place Place
}

// Group is one revision of a workload with its mix, at one moment. It is a
// value: nothing in it changes afterwards.
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
	// Ended is set where the owner makes no more pods.
	Ended bool
	// CountsFailures is set where the owner counts an evicted pod as failed, as a Job does.
	CountsFailures bool
	// MinReady is how long a pod must have been Ready to be available, as the owner has it; 0 where it has no such field.
	MinReady time.Duration
	// FixedNode is the nodeName of the owner's pod template, "" for none: no scheduler places a replacement.
	FixedNode string
	// Assignments are the live pods, sorted by slot. A pod that is pending or on a
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
	// Identity is set where slots come with the pods' names or indexes: a replacement has its predecessor's slot.
	Identity bool
	// Terminating pods hold no slot; they only show that something goes on.
	Terminating int
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

// Overwritten counts the replicas whose deletion cost another client has overwritten.
func (g *Group) Overwritten() (n int) {
	for i := range g.Assignments {
		if g.Assignments[i].Pod.CostOverwritten() {
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

// Going returns the group as it is once some of its pods have gone, by UID, and
// their replacements are pending: on the lowest slots that are then free, where
// the scheduler puts them, or where slots come with identity on the same ones.
// It is for pods that were evicted when the watch has not delivered that yet.
func (g Group) Going(uids map[types.UID]bool) Group {
	var taken split.Slots
	assignments := slices.Clone(g.Assignments)
	going := func(s *Assignment) bool { return s.Place != Pending && uids[s.Pod.UID] }
	for i := range assignments {
		if g.Identity || !going(&assignments[i]) {
			taken.Take(assignments[i].Slot)
		}
	}
	for i := range assignments {
		s := &assignments[i]
		if !going(s) {
			continue
		}
		if !g.Identity {
			s.Slot = taken.Lowest()
			taken.Take(s.Slot)
			s.Wants = g.Governing.Mix.TypeOf(s.Slot)
		}
		s.Place, s.On = Pending, s.Wants
	}
	slices.SortFunc(assignments, func(a, b Assignment) int { return cmp.Compare(a.Slot, b.Slot) })
	g.Assignments = assignments
	return g
}

// Resolve returns the mix that governs a pod, nil if none does, with the
// annotations that could not be read.
func (st *State) Resolve(p *Pod) (*governing.Mix, []governing.InvalidAnnotation) {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.mixOf(p, p.Object())
}

// mixOf is Resolve with the lock held, for a pod and what it is as an object.
func (st *State) mixOf(p *Pod, o *corev1.Pod) (*governing.Mix, []governing.InvalidAnnotation) {
	found, invalid := st.resolver.Resolve(o)
	if found == nil && governing.Governable(o) {
		found = st.Defaults[p.SchedulerName]
	}
	return found, invalid
}

// Follows reports whether the controller of a group is known and makes pods.
func (st *State) Follows(key governing.GroupKey) bool {
	st.mu.RLock()
	defer st.mu.RUnlock()
	o := st.object(key.Namespace, types.UID(key.ID))
	return o != nil && !o.ended && o.asked != 0
}

// group builds the group of the pods of one controller that a mix governs; st.mu is locked to write.
func (st *State) group(namespace string, uid types.UID, members []*Pod) (Group, bool) {
	g := Group{Key: governing.GroupKey{Namespace: namespace, ID: string(uid)}, Version: st.nextVersion()}
	live := make([]*Pod, 0, len(members))
	for _, p := range members {
		switch {
		case p.Live():
			live = append(live, p)
		case p.Terminating && !p.Finished:
			g.Terminating++
		}
	}
	slices.SortFunc(live, older)
	var governed []*Pod
	if governed, g.Governing = st.governed(live); g.Governing == nil {
		return g, false
	}
	others := len(live) - len(governed)
	if others > 0 {
		g.Taken = st.slotsOf(live, governed)
	}
	newest := governed[len(governed)-1]
	newest.Into(&st.scratch)
	_, g.Identity = governing.IdentitySlot(&st.scratch, controllersOf{st})
	g.SchedulerName, g.Gated, g.SpreadByType = newest.SchedulerName, newest.UsesGate, newest.SpreadByType
	g.Replicas = len(governed)
	owner := st.object(namespace, uid)
	g.Workload, g.Rollout = st.workload(namespace, newest.Owner, owner)
	g.CountsFailures = slices.ContainsFunc(live, func(p *Pod) bool { return p.RunsOnce })
	if owner != nil {
		g.Ended, g.FixedNode, g.MinReady = owner.ended || owner.asked == 0, owner.node, owner.minReady
		g.CountsFailures = g.CountsFailures && !owner.toleratesEvictions
		if owner.asked >= 0 && replacement.MakerOf(newest.Owner).Counts() {
			g.Replicas, g.Counted = max(0, owner.asked-others), true
		}
	}
	g.Assignments = st.assignments(g.Governing.Mix, governed, g.unchanging())
	return g, true
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

// bareGroups groups the pods without a controller by their mix.
func (st *State) bareGroups(namespace string, pods map[*Pod]struct{}) []Group {
	byKey := map[governing.GroupKey][]*Pod{}
	mixes := map[governing.GroupKey]*governing.Mix{}
	o := &st.scratch
	for p := range pods {
		if !p.Live() {
			continue
		}
		p.Into(o)
		found, _ := st.mixOf(p, o)
		key, ok := governing.GroupOf(o, found)
		if found == nil || !ok {
			continue
		}
		byKey[key], mixes[key] = append(byKey[key], p), found
	}
	var groups []Group
	for key, live := range byKey {
		slices.SortFunc(live, older)
		groups = append(groups, Group{
			Key: key, Version: st.nextVersion(), Governing: mixes[key], Replicas: len(live),
			Workload:      Workload{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: key.ID},
			SchedulerName: live[len(live)-1].SchedulerName, Gated: live[len(live)-1].UsesGate,
			Assignments: st.assignments(mixes[key].Mix, live, 0),
		})
	}
	return groups
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
