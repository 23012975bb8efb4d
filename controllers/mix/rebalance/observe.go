// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"slices"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

// evaluation is one reconcile of a workload. The entry is what comes of it.
type evaluation struct {
	rebalance.Entry
	now time.Time
	// before is the entry of the last reconcile, or what an earlier leader left; stored is what the store has. They are not
	// changed.
	before rebalance.Entry
	stored *rebalance.Entry
	// invalid is why the settings cannot be read: then nothing is decided.
	invalid error
	// budgets are those of the namespace, holders its placeholders.
	budgets []rebalance.DisruptionBudget
	holders []*clusterstate.Pod
	// ended are the moves that are over.
	ended []rebalance.Ending
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
	cm, err := mixNamed(ctx, c.Reader, g.Key.Namespace, name)
	if err != nil {
		return nil, err
	}
	w := &evaluation{now: c.Clock.Now(), holders: c.holders.placeholdersIn(g.Key.Namespace)}
	known := false
	w.before, known = c.Workloads.Get(g.Key)
	w.stored = &w.before
	if !known || w.before.Restored {
		stored := w.before
		status := rebalance.FromStatus(g.Workload, cm, w.now, c.MaxBackoff)
		w.stored, w.before = &stored, rebalance.Remembered(stored, c.journal.recorded(g.Key), status, w.now)
	}
	w.before = c.followScale(ctx, w.before, g)
	now := going(g, w.before.Moves)
	now.MinReady = max(now.MinReady, w.before.MinReady)
	w.Entry, w.ended = rebalance.Advance(w.before, now, w.now, c.limits())
	w.Mix, w.Spec = name, versionOf(cm)
	w.Selecting = selecting(c.State.Mixes, &w.before, g)
	if w.WrongSince.IsZero() {
		w.Unproven = 0
	}
	w.Settings, w.invalid = c.Defaults.For(g.Governing, cm)
	if c.DryRun {
		w.Placeholders = nil // those of before it are left alone, and not treated as lost
	} else {
		w.Placeholders = rebalance.Adopt(&w.Entry, w.holders, w.now)
	}
	if !w.WrongSince.IsZero() {
		if w.budgets, err = budgetsIn(ctx, c.Reader, g.Key.Namespace); err == nil {
			w.ForgetRefusal(w.budgets)
		}
	}
	return w, err
}

// vanished is the evaluation of a workload that has no pods, or no mix, any more.
func (c *Controller) vanished(e rebalance.Entry) *evaluation {
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
			w.gone = w.gone && !w.now.Before(m.Deadline(&w.Group, c.MoveTimeout))
		}
		w.dueAt(w.MovesDue(w.now, c.MoveTimeout))
	}
	if w.gone && (e.Group.Counted || e.Group.Ended) && !c.State.Follows(e.Group.Key) {
		c.journal.forget(e.Group.Key) // its owner requests no more pods; another one may yet replace them
	}
	return w
}

// mixesIn returns the mixes of a namespace, or of all, by namespace and name. They are the cache's and must not be changed.
func mixesIn(ctx context.Context, reader client.Reader, namespace string) (map[string]map[string]*v1alpha1.CapacityMix, error) {
	var list v1alpha1.CapacityMixList
	if err := reader.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
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

// mixNamed returns a mix, nil if there is none of that name.
func mixNamed(ctx context.Context, reader client.Reader, namespace, name string) (*v1alpha1.CapacityMix, error) {
	if name == "" {
		return nil, nil
	}
	cm := &v1alpha1.CapacityMix{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cm, client.UnsafeDisableDeepCopy); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return cm, nil
}

// budgetsIn returns the PodDisruptionBudgets of a namespace. The Eviction API ignores those that cannot be read, too.
func budgetsIn(ctx context.Context, reader client.Reader, namespace string) (list []rebalance.DisruptionBudget, err error) {
	var all policyv1.PodDisruptionBudgetList
	if err := reader.List(ctx, &all, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range all.Items {
		if b, err := rebalance.FromPDB(&all.Items[i]); err == nil {
			list = append(list, b)
		}
	}
	return list, nil
}

func versionOf(cm *v1alpha1.CapacityMix) rebalance.Version {
	if cm == nil {
		return rebalance.Version{}
	}
	return rebalance.Version{UID: cm.UID, Generation: cm.Generation}
}

// mixOf is the name of the CapacityMix that governs a group, "" if none does.
func mixOf(g *clusterstate.Group) string {
	name, is := strings.CutPrefix(g.Governing.Source, governing.SourceCapacityMix)
	if !is {
		return ""
	}
	return name
}

// going is a group without the pods that were evicted already.
func going(g *clusterstate.Group, moves []rebalance.Move) clusterstate.Group {
	if len(moves) == 0 {
		return *g
	}
	return g.Going(rebalance.Moved(moves))
}

// selecting are the mixes that select pods of a group. A group that is the same as before is so under the same mixes.
func selecting(mixes *governing.Registry, before *rebalance.Entry, g *clusterstate.Group) (names []string) {
	if before.Group.Version == g.Version {
		return before.Selecting
	}
	for i, s := range g.Assignments {
		if i == 0 || !s.Pod.SameLabels(g.Assignments[i-1].Pod) {
			names = mixes.Selecting(names, g.Key.Namespace, s.Pod.Labels)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
