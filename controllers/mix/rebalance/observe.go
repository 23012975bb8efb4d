// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

// evaluation is one reconcile of a workload, with what only the calls for it need.
type evaluation struct {
	*rebalance.Evaluation
	// crowds is set where the namespace has placeholders.
	crowds bool
	// lacks are the types that had no capacity for a replica, with the version of their capacity.
	lacks map[capacity.Type]uint64
}

// observe reads what a decision about a workload depends on.
func (c *Controller) observe(ctx context.Context, g *clusterstate.Group) (*evaluation, error) {
	name := g.Governing.CapacityMix()
	cm, err := mixNamed(ctx, c.Reader, g.Key.Namespace, name)
	if err != nil {
		return nil, err
	}
	now := c.Clock.Now()
	stored, known := c.Workloads.Get(g.Key)
	before := stored
	if !known || stored.Restored {
		status := rebalance.FromStatus(g.Workload, cm, now, c.MaxBackoff)
		before = rebalance.Remembered(stored, c.journal.recorded(g.Key), status, now)
	}
	before = c.followScale(ctx, before, g)
	there := c.holders.placeholdersIn(g.Key.Namespace)
	w := &evaluation{Evaluation: rebalance.Begin(before, stored, *g, there, c.DryRun, now, c.limits()), crowds: len(there) > 0}
	w.Mix, w.Spec, w.Selecting = name, versionOf(cm), selecting(c.State.Mixes, &before, g)
	w.Settings, w.Invalid = c.Defaults.For(g.Governing, cm)
	w.Requested = c.requested(g.Key.Namespace)
	if !w.WrongSince.IsZero() {
		if w.Budgets, err = budgetsIn(ctx, c.Reader, g.Key.Namespace); err == nil {
			w.ForgetRefusal(w.Budgets)
		}
	}
	return w, err
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

// selecting are the mixes that select pods of a group. A group that is the same as before is so under the same mixes.
func selecting(mixes *governing.Registry, before *rebalance.Entry, g *clusterstate.Group) (names []string) {
	if before.Group.Version == g.Version {
		return before.Selecting
	}
	var last *clusterstate.Pod
	for i := range g.Assignments {
		for _, p := range g.Assignments[i].Members() {
			if last == nil || !p.SameLabels(last) {
				names = mixes.Selecting(names, g.Key.Namespace, p.Labels)
			}
			last = p
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
