// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"slices"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/rebalance"
)

// evaluation is one reconcile of a workload. The entry is what comes of it.
type evaluation struct {
	workloads.Entry
	now time.Time
	// before is the entry of the last reconcile, or what an earlier leader left; stored is what the store has. They are not
	// changed.
	before workloads.Entry
	stored *workloads.Entry
	// invalid is why the settings cannot be read: then nothing is decided.
	invalid error
	// budgets are those of the namespace, holders its placeholders.
	budgets []rebalance.DisruptionBudget
	holders []*clusterstate.Pod
	// ended are the moves that are over.
	ended []ending
	// next is when time alone will have changed something, zero for never.
	next time.Time
	// lacks are the types that had no capacity for a replica, with the version of their capacity.
	lacks map[capacity.Type]uint64
	// admitted is the replacement that was admitted last, proven the one whose capacity was proven last.
	admitted, proven nextPod
	// crowded is a ResourceQuota that does not allow the replacement beside the replica, "" for none.
	crowded string
	// gone is set where the workload has no pods any more, and none will come back.
	gone bool
}

// observe gathers what a decision about a workload depends on.
func (c *Controller) observe(ctx context.Context, g *clusterstate.Group) (*evaluation, error) {
	name := mixOf(g)
	cm, err := c.mix(ctx, g.Key.Namespace, name)
	if err != nil {
		return nil, err
	}
	w := &evaluation{now: c.Clock.Now(), holders: c.placeholdersIn(g.Key.Namespace)}
	known := false
	w.before, known = c.Workloads.Get(g.Key)
	w.stored = &w.before
	if !known || w.before.Restored {
		stored := w.before
		w.stored, w.before = &stored, c.remembered(stored, g, cm, w.now)
	}
	w.before = c.followScale(ctx, w.before, g)
	now := going(g, w.before.Moves)
	now.MinReady = max(now.MinReady, w.before.MinReady)
	w.Entry, w.ended = advance(w.before, now, w.now, c.limits())
	w.Mix, w.Spec = name, versionOf(cm)
	w.Selecting = c.selecting(&w.before, g)
	if w.WrongSince.IsZero() {
		w.Unproven = 0
	}
	w.Settings, w.invalid = c.Defaults.For(g.Policy, cm)
	if c.DryRun {
		w.Placeholders = nil // those of before it are left alone, and not treated as lost
	} else {
		w.Placeholders = adopt(&w.Entry, w.holders, w.now)
	}
	if !w.WrongSince.IsZero() {
		if w.budgets, err = c.budgets(ctx, g.Key.Namespace); err == nil {
			w.forgetRefusal()
		}
	}
	return w, err
}

// vanished is the evaluation of a workload that has no pods, or no mix, any more.
func (c *Controller) vanished(e workloads.Entry) *evaluation {
	w := &evaluation{Entry: e, now: c.Clock.Now(), before: e, stored: &e, gone: true}
	w.Selecting = nil
	if len(e.Moves) > 0 && c.State.Follows(e.Group.Key) {
		// Its only replica was moved, and the replacement is about to come: that of a StatefulSet does once the old pod is
		// gone. If the workload was forgotten, so would be that the move failed, and it would be moved again without end.
		w.Group.Assignments, w.Group.Version = nil, 0
		w.Moves = slices.Clone(e.Moves)
		for i := range w.Moves {
			m := &w.Moves[i]
			m.Slow = w.now.Sub(m.Started) >= rebalance.SlowAfter
			w.gone = w.gone && !w.now.Before(deadline(*m, &w.Group, c.MoveTimeout))
		}
		w.scheduleMoves(c.MoveTimeout)
	}
	if w.gone && (e.Group.Counted || e.Group.Ended) && !c.State.Follows(e.Group.Key) {
		c.journal.forget(e.Group.Key) // its owner requests no more pods; another one may yet replace them
	}
	return w
}

// mixes returns the mixes of a namespace, or of all, by namespace and name. They are the cache's and must not be changed.
func (c *Controller) mixes(ctx context.Context, namespace string) (map[string]map[string]*v1alpha1.CapacityMix, error) {
	var list v1alpha1.CapacityMixList
	if err := c.Reader.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	by := map[string]map[string]*v1alpha1.CapacityMix{}
	for i := range list.Items {
		cm := &list.Items[i]
		if by[cm.Namespace] == nil {
			by[cm.Namespace] = map[string]*v1alpha1.CapacityMix{}
		}
		by[cm.Namespace][cm.Name] = cm
	}
	return by, nil
}

// mix returns a mix, nil if there is none of that name.
func (c *Controller) mix(ctx context.Context, namespace, name string) (*v1alpha1.CapacityMix, error) {
	if name == "" {
		return nil, nil
	}
	cm := &v1alpha1.CapacityMix{}
	if err := c.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cm, client.UnsafeDisableDeepCopy); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return cm, nil
}

// budgets returns the PodDisruptionBudgets of a namespace. The Eviction API ignores those that cannot be read, too.
func (c *Controller) budgets(ctx context.Context, namespace string) (list []rebalance.DisruptionBudget, err error) {
	var all policyv1.PodDisruptionBudgetList
	if err := c.Reader.List(ctx, &all, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range all.Items {
		if b, err := rebalance.FromPDB(&all.Items[i]); err == nil {
			list = append(list, b)
		}
	}
	return list, nil
}

func versionOf(cm *v1alpha1.CapacityMix) workloads.Version {
	if cm == nil {
		return workloads.Version{}
	}
	return workloads.Version{UID: cm.UID, Generation: cm.Generation}
}

// mixOf is the name of the CapacityMix that governs a group, "" if none does.
func mixOf(g *clusterstate.Group) string {
	name, is := strings.CutPrefix(g.Policy.Source, policy.SourceCapacityMix)
	if !is {
		return ""
	}
	return name
}

// going is a group without the pods that were evicted already.
func going(g *clusterstate.Group, moves []workloads.Move) clusterstate.Group {
	if len(moves) == 0 {
		return *g
	}
	return g.Going(moved(moves))
}

func moved(moves []workloads.Move) map[types.UID]bool {
	uids := make(map[types.UID]bool, len(moves))
	for _, m := range moves {
		uids[m.UID] = true
	}
	return uids
}

// selecting are the mixes that select pods of a group. A group that is the same as before is so under the same mixes.
func (c *Controller) selecting(before *workloads.Entry, g *clusterstate.Group) (names []string) {
	if before.Group.Version == g.Version {
		return before.Selecting
	}
	for i, s := range g.Assignments {
		if i == 0 || !s.Pod.SameLabels(g.Assignments[i-1].Pod) {
			names = c.State.Mixes.Selecting(names, g.Key.Namespace, s.Pod.Labels)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// remembered is what a new leader knows of a workload: from the store, if the journal was read, from the record of one that
// had no pods meanwhile, and from the status of its mix.
func (c *Controller) remembered(e workloads.Entry, g *clusterstate.Group, cm *v1alpha1.CapacityMix, now time.Time) workloads.Entry {
	status := fromStatus(g.Workload, cm, now, c.MaxBackoff)
	if !e.Restored {
		e = workloads.Entry{}
		if r, recorded := c.journal.records[g.Key]; recorded {
			e = recall(e, r, now)
		}
	}
	e.Restored = false
	e.WrongSince, e.Failures = status.WrongSince, max(e.Failures, status.Failures)
	if status.RetryAt.After(e.RetryAt) {
		e.RetryAt = status.RetryAt
	}
	return e
}

// fromStatus is what the status of a mix has about a workload. The clock that wrote it may be wrong, or another user wrote
// it: no time holds the workload for longer than this controller would.
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

// ending is a move that is over.
type ending struct {
	move    workloads.Move
	outcome outcome
	// on is the type that the replacement runs on, of a move that failed.
	on capacity.Type
	// available of want replicas were so then.
	available, want int
}

// advance brings an entry up to what its group is now. It is a pure function: the entry that it returns shares nothing
// with the old one that changes.
func advance(old workloads.Entry, g clusterstate.Group, now time.Time, l limits) (e workloads.Entry, ended []ending) {
	e = old
	e.Group = g
	wrong := len(g.WrongSide())
	e.WrongSince = since(old.WrongSince, wrong > 0, now)
	e.RollingSince = since(old.RollingSince, g.Rollout.Rolling, now)
	if wrong == 0 && len(old.Moves) == 0 {
		e.Failures, e.RetryAt, e.Refusal = 0, time.Time{}, workloads.Refusal{}
	}
	e.Had = rebalance.MustBeBack(&g, old.Had)
	want, available := max(g.Replicas, e.Had), rebalance.Available(&g, now)
	e.Moves = nil
	for i, o := range judge(old.Moves, &g, want, now, l) {
		m := old.Moves[i]
		if o.outcome == moving {
			m.Slow = now.Sub(m.Started) >= rebalance.SlowAfter
			e.Moves = append(e.Moves, m)
			continue
		}
		ended = append(ended, ending{m, o.outcome, o.on, available, want})
	}
	// Of moves that end together, a failure counts whatever the others did.
	if slices.ContainsFunc(ended, func(e ending) bool { return e.outcome == succeeded }) {
		e.Failures, e.RetryAt, e.Refusal = 0, time.Time{}, workloads.Refusal{}
	}
	for _, end := range ended {
		if end.outcome == failed || end.outcome == timedOut {
			l.failed(&e, end.move.Started, now)
		}
	}
	if len(e.Moves) == 0 && available >= want {
		e.Had = 0
	}
	e.Held = stillHeld(old.Held, now)
	return e, ended
}

// stillHeld are the holds that are not over, nil for none.
func stillHeld(old map[string]workloads.Hold, now time.Time) (held map[string]workloads.Hold) {
	for uid, h := range old {
		if now.Before(h.Until) {
			if held == nil {
				held = map[string]workloads.Hold{}
			}
			held[uid] = h
		}
	}
	return held
}

// since keeps the time at which something began.
func since(began time.Time, is bool, now time.Time) time.Time {
	switch {
	case !is:
		return time.Time{}
	case began.IsZero():
		return now
	}
	return began
}

// limits are the times of a move.
type limits struct {
	backoff, maxBackoff, timeout time.Duration
}

// fail makes a workload rest after a move that failed.
func (l limits) fail(e *workloads.Entry, now time.Time) {
	e.Failures++
	e.RetryAt = now.Add(rebalance.Backoff(l.backoff, l.maxBackoff, e.Failures))
}

// failed makes a workload rest after a move or a placeholder that failed. What began before the last failure that counts was decided
// without it: together they count as one. A refused eviction may be forgotten, but not what failed since.
func (l limits) failed(e *workloads.Entry, began, now time.Time) {
	e.Refusal = workloads.Refusal{}
	if e.Failures > 0 && began.Before(e.FailedAt) {
		e.RetryAt = now.Add(rebalance.Backoff(l.backoff, l.maxBackoff, e.Failures))
		return
	}
	l.fail(e, now)
	e.FailedAt = now
}
