// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/board"
	"berth.dev/berth/internal/fleet"
	"berth.dev/berth/internal/policy"
	"berth.dev/berth/internal/rebalance"
	"berth.dev/berth/internal/replay"
)

// pass is one look at some namespaces. Its snapshot is shared by all questions
// about room, and dropped with it.
type pass struct {
	*Controller
	now      time.Time
	cluster  rebalance.Cluster
	due      map[string]time.Time
	snapshot *replay.Snapshot
	taken    time.Time
}

func (p *pass) close() {
	if p.snapshot != nil {
		p.snapshot.Close()
		p.snapshot = nil
	}
}

// place is what is known of a namespace besides its pods.
type place struct {
	mixes   map[string]*v1alpha1.CapacityMix
	budgets []rebalance.DisruptionBudget
	// holders are the placeholders.
	holders []*fleet.Pod
}

// namespace looks at the groups of a namespace one after the other.
func (p *pass) namespace(ctx context.Context, namespace string) {
	at, err := p.placeOf(ctx, namespace)
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot read a namespace", "namespace", namespace)
		return
	}
	seen := map[policy.GroupKey]bool{}
	for _, g := range p.Fleet.Groups(namespace) {
		seen[g.Key] = true
		p.group(ctx, g, at)
	}
	for _, e := range p.Board.Namespace(namespace) {
		if !seen[e.Group.Key] && p.comesBack(&e) {
			seen[e.Group.Key] = true
			p.Board.Put(e)
		}
	}
	p.Board.Retain(namespace, seen)
	p.sweep(ctx, namespace, at.holders)
}

// comesBack reports whether a group without a pod is about to have one again:
// its only replica was moved, and the replacement is not there yet, as with a
// StatefulSet until the old pod is gone. Were it forgotten, so would be that
// the move failed, and it would be moved again without end.
func (p *pass) comesBack(e *board.Entry) bool {
	if len(e.Moves) == 0 || !p.Fleet.Follows(e.Group.Key) {
		return false
	}
	e.Group.Seats = nil
	for _, m := range e.Moves {
		until := m.Started.Add(p.MoveTimeout)
		if p.now.Before(until) {
			p.dueAt(e.Group.Key.Namespace, until)
			return true
		}
	}
	return false
}

func (p *pass) placeOf(ctx context.Context, namespace string) (*place, error) {
	at := &place{mixes: map[string]*v1alpha1.CapacityMix{}, holders: p.placeholdersIn(namespace)}
	var mixes v1alpha1.CapacityMixList
	if err := p.Reader.List(ctx, &mixes, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	for i := range mixes.Items {
		at.mixes[mixes.Items[i].Name] = &mixes.Items[i]
	}
	var budgets policyv1.PodDisruptionBudgetList
	if err := p.Reader.List(ctx, &budgets, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	for i := range budgets.Items {
		b, err := rebalance.FromPDB(&budgets.Items[i])
		if err != nil { // it selects no pod, as far as the eviction API is concerned
			continue
		}
		at.budgets = append(at.budgets, b)
	}
	return at, nil
}

// group brings the entry of a group up to date, and moves what may be moved.
func (p *pass) group(ctx context.Context, g fleet.Group, at *place) {
	name, _ := strings.CutPrefix(g.Policy.Source, policy.SourceCapacityMix)
	if name == g.Policy.Source {
		name = ""
	}
	cm := at.mixes[name]
	old, known := p.Board.Get(g.Key)
	if !known {
		old = remembered(g.Workload, cm)
	}
	g = g.Going(moved(old.Moves))
	e, ended := observe(old, g, p.now, p.limits())
	e.Mix = name
	var bad error
	if e.Settings, bad = p.Defaults.For(cm); bad != nil {
		e.Verdict = rebalance.Verdict{Reason: ReasonInvalidWindow, Message: bad.Error()}
		if e.WrongSince.IsZero() { // nothing has to move, so nothing is blocked
			e.Verdict = rebalance.Verdict{Reason: rebalance.ReasonOnTarget}
		}
	}
	logger := log.FromContext(ctx).WithValues("mix", e.Mix, "workload", g.Workload.Name, "kind", g.Workload.Kind, "namespace", g.Key.Namespace)
	ctx = log.IntoContext(ctx, logger)
	for _, o := range ended {
		p.ended(ctx, &e, o)
	}
	e.Placeholders = adopt(&e, at.holders, p.now)
	p.Board.Put(e) // so that the budgets are counted right
	if bad == nil {
		p.decide(ctx, &e, at)
	} else {
		p.releaseAll(ctx, &e)
	}
	p.report(&e)
	p.Board.Put(e)
	p.dueAt(g.Key.Namespace, e.Verdict.RetryAt)
}

// decide asks for the next replica until none may move.
func (p *pass) decide(ctx context.Context, e *board.Entry, at *place) {
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
			return
		}
		node, hold := p.prove(ctx, e, v)
		if hold == nil {
			if would := in.Effect(v); would.Reason == rebalance.ReasonMove {
				hold = p.evict(ctx, e, v, node)
			} else {
				// It stands for a while: room is not proven again and again for a move that is not made.
				hold = &board.Hold{Verdict: would, Until: p.now.Add(holdNoRoom)}
			}
		}
		p.holdBack(e, hold)
		p.Board.Put(*e)
	}
}

// holdBack leaves the replica of a hold alone, if there is one.
func (p *pass) holdBack(e *board.Entry, hold *board.Hold) {
	if hold != nil {
		holdBack(e, hold.Verdict.Pod.UID, *hold)
		p.dueAt(hold.Verdict.Pod.Namespace, hold.Until)
	}
}

// ofOneReplica are the reasons of holds that say nothing about the other
// replicas of a workload.
var ofOneReplica = []rebalance.Reason{rebalance.ReasonNoRoom, rebalance.ReasonReport, rebalance.ReasonDryRun, ReasonChanged}

// holdBack leaves a replica alone for a while. What the API server refused, or
// could not say, for one replica it would for the next: then all are left alone.
func holdBack(e *board.Entry, uid types.UID, hold board.Hold) {
	held := maps.Clone(e.Held)
	if held == nil {
		held = map[string]board.Hold{}
	}
	held[string(uid)] = hold
	if !slices.Contains(ofOneReplica, hold.Verdict.Reason) {
		for _, s := range e.Group.Seats {
			held[string(s.Pod.UID)] = hold
		}
	}
	e.Held = held
}

func (p *pass) input(e *board.Entry, at *place) *rebalance.Input {
	in := &rebalance.Input{
		Cluster: p.cluster, Settings: e.Settings, Group: e.Group, Budgets: at.budgets, MayFit: p.Fleet.MayFit,
		History: rebalance.History{WrongSince: e.WrongSince, RollingSince: e.RollingSince, Failures: e.Failures, RetryAt: e.RetryAt},
		Skip:    map[string]rebalance.Verdict{},
	}
	in.Cluster.InFlight, in.History.InFlight = p.Board.InFlight(e.Group.Key.Namespace, e.Mix)
	if e.Mix == "" {
		in.History.InFlight = len(e.Moves) + len(e.Placeholders)
	}
	for uid, h := range e.Held {
		if h.Verdict.Reason == rebalance.ReasonReport && e.Settings.Mode != rebalance.Report {
			continue // it was asked only to report, and is not any more
		}
		in.Skip[uid] = h.Verdict
	}
	for _, h := range e.Placeholders {
		in.Skip[string(h.Replica)] = rebalance.Verdict{
			Reason: rebalance.ReasonProvisioning, Target: h.Target,
			Message: fmt.Sprintf("placeholder %s asks for room on %s for the replacement of pod %s", h.Name, h.Target, h.ReplicaName),
		}
	}
	return in
}

func (p *pass) dueAt(namespace string, at time.Time) {
	if known, ok := p.due[namespace]; !at.IsZero() && (!ok || at.Before(known)) {
		p.due[namespace] = at
	}
}

func moved(moves []board.Move) map[types.UID]bool {
	uids := make(map[types.UID]bool, len(moves))
	for _, m := range moves {
		uids[m.UID] = true
	}
	return uids
}

// remembered is what the status of a mix tells a new leader about a workload.
func remembered(w fleet.Workload, cm *v1alpha1.CapacityMix) (e board.Entry) {
	if cm == nil {
		return e
	}
	for _, s := range cm.Status.Workloads {
		if s.Kind != w.Kind || s.Name != w.Name || s.Revision != w.Revision {
			continue
		}
		if s.OutOfMixSince != nil {
			e.WrongSince = s.OutOfMixSince.Time
		}
		if s.RetryTime != nil {
			e.RetryAt = s.RetryTime.Time
		}
		e.Failures = s.FailedMoves
	}
	return e
}

// ReasonInvalidWindow means that spec.rebalance.windows cannot be read, so nothing is moved.
const ReasonInvalidWindow rebalance.Reason = "InvalidWindow"

// workloadRef is what events about a workload are recorded on.
func workloadRef(w fleet.Workload) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: w.APIVersion, Kind: w.Kind, Namespace: w.Namespace, Name: w.Name, UID: w.UID}
}
