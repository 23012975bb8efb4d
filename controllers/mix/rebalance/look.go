// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/rebalance"
)

// group brings the entry of a group up to date, and moves what may be moved.
func (p *pass) group(ctx context.Context, g *clusterstate.Group, at *place) {
	p.next, p.lacks = time.Time{}, nil
	name := mixOf(g)
	cm, err := at.mix(ctx, name)
	old, known := p.Workloads.Get(g.Key)
	shown := old // what the others know of it
	if !known || old.Restored {
		old = p.remembered(old, g, cm)
	}
	old = p.followScale(ctx, old, g)
	e, ended := observe(old, going(g, old.Moves), p.now, p.limits())
	if err = errors.Join(err, at.readBudgets(ctx, &e)); err != nil {
		log.FromContext(ctx).Error(err, "Cannot read what a decision needs", "workload", g.Workload.Name, "namespace", g.Key.Namespace)
		return
	}
	before := p.contention(g.Key.Namespace)
	e.Mix, e.Seen, e.Spec = name, g, versionOf(cm)
	e.Selecting = p.selecting(&old, g)
	readable := p.settle(&e, cm)
	if !e.WrongSince.IsZero() || old.InFlight() > 0 || len(at.holders) > 0 { // otherwise there is nothing to tell
		logger := log.FromContext(ctx).WithValues("mix", e.Mix, "workload", g.Workload.Name, "kind", g.Workload.Kind, "namespace", g.Key.Namespace)
		ctx = log.IntoContext(ctx, logger)
	}
	for _, o := range ended {
		p.ended(ctx, &e, o)
	}
	if p.DryRun {
		e.Placeholders = nil // those of before it are left alone, and not treated as lost
	} else {
		e.Placeholders = adopt(&e, at.holders, p.now)
	}
	p.Workloads.Put(e) // so that the budgets are counted right
	if readable {
		p.decide(ctx, &e, at)
	} else {
		p.releaseAll(ctx, &e)
	}
	p.report(&e)
	if !sameInFlight(&shown, &e) || !sameInFlight(&old, &e) {
		e.Seen = nil // it was observed as of before, so a resync must not leave it out
		p.Changed(g.Key)
	}
	p.keep(&old, &shown, &e, before)
}

// keep notes what a look at a group has come to. Old is what was known of it
// before, shown what the board had of that.
func (p *pass) keep(old, shown, e *workloads.Entry, before contention) {
	key := e.Group.Key
	p.Workloads.Put(*e)
	p.journal.note(e, p.now)
	p.schedule(e)
	p.noted(key)
	p.changed(old, e)
	if !maps.EqualFunc(old.Held, e.Held, func(a, b workloads.Hold) bool { return a.Until.Equal(b.Until) && a.Verdict.Reason == b.Verdict.Reason }) {
		p.Changed(key) // what was held back in this look may change what is said of the others
	}
	p.inFlightChanged(shown, e, before)
}

// settle finds the settings of a workload. Where they cannot be read, nothing is decided.
func (p *pass) settle(e *workloads.Entry, cm *v1alpha1.CapacityMix) (readable bool) {
	var bad error
	if e.Settings, bad = p.Defaults.For(cm); bad == nil {
		return true
	}
	e.Verdict = rebalance.Verdict{Reason: ReasonInvalidWindow, Message: bad.Error()}
	if e.WrongSince.IsZero() { // nothing has to move, so nothing is blocked
		e.Verdict = rebalance.Verdict{Reason: rebalance.ReasonOnTarget}
	}
	return false
}

// schedule notes when time alone will have changed something about a workload.
func (p *pass) schedule(e *workloads.Entry) {
	p.dueAt(e.Verdict.RetryAt)
	for _, h := range e.Held {
		p.dueAt(h.Until)
	}
	p.scheduleMoves(e)
	for _, h := range e.Placeholders {
		if !h.Seen {
			p.dueAt(h.Created.Add(unseen))
		}
		if !h.Slow {
			p.dueAt(h.Created.Add(rebalance.SlowAfter))
		}
	}
}

func (p *pass) scheduleMoves(e *workloads.Entry) {
	for _, m := range e.Moves {
		for _, at := range []time.Time{m.Started.Add(p.MoveTimeout), m.Started.Add(rebalance.SlowAfter), m.DoubtUntil} {
			if at.After(p.now) {
				p.dueAt(at)
			}
		}
	}
}

// going is a group without the pods that were evicted already.
func going(g *clusterstate.Group, moves []workloads.Move) clusterstate.Group {
	if len(moves) == 0 {
		return *g
	}
	return g.Going(moved(moves))
}

// selecting are the mixes that select pods of a group. A group that is the same
// as before is so under the same mixes.
func (p *pass) selecting(old *workloads.Entry, g *clusterstate.Group) (names []string) {
	if old.Seen == g {
		return old.Selecting
	}
	seen := uintptr(0)
	for _, s := range g.Seats {
		// Replicas mostly share one set of labels.
		set := reflect.ValueOf(s.Pod.Labels).Pointer()
		if set == seen && seen != 0 {
			continue
		}
		seen = set
		names = p.State.Mixes.Selecting(names, g.Key.Namespace, s.Pod.Labels)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// changed notes which mixes have another status after a look at a group; after
// is nil where the group is gone.
func (p *pass) changed(before, after *workloads.Entry) {
	p.decided.Groups = append(p.decided.Groups, before.Group.Key)
	add := func(names ...string) {
		for _, n := range names {
			if n != "" {
				p.decided.Mixes[n] = true
			}
		}
	}
	add(before.Mix)
	if after == nil {
		add(before.Selecting...)
		return
	}
	p.decided.Groups[len(p.decided.Groups)-1] = after.Group.Key
	add(after.Mix)
	if before.Mix != after.Mix || !slices.Equal(before.Selecting, after.Selecting) {
		add(before.Selecting...)
		add(after.Selecting...)
	}
}

// noted keeps when a group has to be looked at again, and because of missing what.
func (p *pass) noted(key policy.GroupKey) {
	p.due.set(key, p.next)
	if p.lacks == nil {
		delete(p.roomless, key)
	} else {
		p.roomless[key] = p.lacks
	}
}

// mayFit is what the cluster state says, and remembers where it says no.
func (p *pass) mayFit(t capacity.Type, pod *clusterstate.Pod) bool {
	room := p.State.Room(t) // before it is requested: what comes meanwhile counts
	if p.State.MayFit(t, pod) {
		return true
	}
	if p.lacks == nil {
		p.lacks = map[capacity.Type]bool{}
	}
	p.lacks[t] = true
	if _, known := p.room[t]; !known {
		p.room[t] = room
	}
	return false
}

// decide requests the next replica until none may move.
func (p *pass) decide(ctx context.Context, e *workloads.Entry, at *place) {
	p.advance(ctx, e, at)
	for {
		in := p.input(e, at)
		v := rebalance.Choose(in)
		if v.Reason != rebalance.ReasonMove {
			if roomless, ok := rebalance.Provision(in); ok {
				p.provision(ctx, e, roomless)
				continue
			}
			e.Verdict = v
			p.explain(e, at)
			return
		}
		node, hold := p.prove(ctx, e, v)
		if hold == nil {
			if would := in.Effect(v); would.Reason == rebalance.ReasonMove {
				hold = p.evict(ctx, e, v, node, func() rebalance.Verdict { return p.input(e, at).Of(v.Pod.UID) })
			} else {
				// It stands for a while: room is not proven again and again for a move that is not made.
				hold = &workloads.Hold{Verdict: would, Until: p.now.Add(holdNoRoom)}
			}
		}
		p.holdBack(e, hold)
		p.Workloads.Put(*e)
	}
}

// holdBack leaves the replica of a hold alone, if there is one.
func (p *pass) holdBack(e *workloads.Entry, hold *workloads.Hold) {
	if hold != nil {
		holdBack(e, hold.Verdict.Pod.UID, *hold)
		p.dueAt(hold.Until)
	}
}

// ofOneReplica are the reasons of holds that say nothing about the other
// replicas of a workload.
var ofOneReplica = []rebalance.Reason{rebalance.ReasonNoRoom, rebalance.ReasonReport, rebalance.ReasonDryRun, ReasonChanged}

// holdBack leaves a replica alone for a while. What the API server refused, or
// could not say, for one replica it would for the next: then all are left alone.
func holdBack(e *workloads.Entry, uid types.UID, hold workloads.Hold) {
	held := maps.Clone(e.Held)
	if held == nil {
		held = map[string]workloads.Hold{}
	}
	held[string(uid)] = hold
	if !slices.Contains(ofOneReplica, hold.Verdict.Reason) {
		for _, s := range e.Group.Seats {
			held[string(s.Pod.UID)] = hold
		}
	}
	e.Held = held
}

func (p *pass) input(e *workloads.Entry, at *place) *rebalance.Input {
	in := &rebalance.Input{
		Cluster: p.cluster, Settings: e.Settings, Group: e.Group, Budgets: at.budgets, MayFit: p.mayFit,
		History: rebalance.History{WrongSince: e.WrongSince, RollingSince: e.RollingSince, Failures: e.Failures, RetryAt: e.RetryAt, Had: e.Had, Moving: len(e.Moves)},
		Skip:    map[string]rebalance.Verdict{},
	}
	b := p.Workloads.Budgets(e)
	in.Cluster.InFlight, in.Cluster.Reserved, in.History.InFlight = b.InFlight, b.Reserved, b.Mix
	for uid, h := range e.Held {
		if h.Verdict.Reason == rebalance.ReasonReport && e.Settings.Mode != rebalance.Report {
			continue // it was requested only to report, and is not any more
		}
		in.Skip[uid] = h.Verdict
	}
	for _, h := range e.Placeholders {
		in.Skip[string(h.Replica)] = rebalance.Verdict{
			Reason: rebalance.ReasonProvisioning, Target: h.Target,
			Message: fmt.Sprintf("placeholder %s requests room on %s for the replacement of pod %s", h.Name, h.Target, h.ReplicaName),
		}
	}
	return in
}

func (p *pass) dueAt(at time.Time) {
	if !at.IsZero() && (p.next.IsZero() || at.Before(p.next)) {
		p.next = at
	}
}

func moved(moves []workloads.Move) map[types.UID]bool {
	uids := make(map[types.UID]bool, len(moves))
	for _, m := range moves {
		uids[m.UID] = true
	}
	return uids
}

// remembered is what a new leader knows of a workload: from the board, if the
// journal was read, from the record of one that had no pods meanwhile, and from
// the status of its mix.
func (p *pass) remembered(e workloads.Entry, g *clusterstate.Group, cm *v1alpha1.CapacityMix) workloads.Entry {
	said := fromStatus(g.Workload, cm, p.now, p.MaxBackoff)
	if !e.Restored {
		e = workloads.Entry{}
		if r, recorded := p.journal.records[g.Key]; recorded {
			e = recall(e, r, p.now)
		}
	}
	e.Restored = false
	e.WrongSince, e.Failures = said.WrongSince, max(e.Failures, said.Failures)
	if said.RetryAt.After(e.RetryAt) {
		e.RetryAt = said.RetryAt
	}
	return e
}

// fromStatus is what the status of a mix tells about a workload. Another clock
// wrote it, or another user: no time holds the workload for longer than this
// controller would.
func fromStatus(w clusterstate.Workload, cm *v1alpha1.CapacityMix, now time.Time, maxBackoff time.Duration) (e workloads.Entry) {
	if cm == nil {
		return e
	}
	for _, s := range cm.Status.Workloads {
		if s.Kind != w.Kind || s.Name != w.Name || s.Revision != w.Revision {
			continue
		}
		if s.MixNotSatisfiedSince != nil {
			e.WrongSince = rebalance.Clamp(s.MixNotSatisfiedSince.Time, now)
		}
		if s.RetryTime != nil {
			e.RetryAt = rebalance.Clamp(s.RetryTime.Time, now.Add(maxBackoff))
		}
		e.Failures = rebalance.ClampFailures(s.FailedMoves)
	}
	return e
}

// ReasonInvalidWindow means that spec.rebalance.windows cannot be read, so nothing is moved.
const ReasonInvalidWindow rebalance.Reason = "InvalidWindow"

// workloadRef is what events about a workload are recorded on.
func workloadRef(w clusterstate.Workload) *corev1.ObjectReference {
	return w.Reference()
}
