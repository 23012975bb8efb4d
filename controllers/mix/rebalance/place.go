// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/controllers/mix/workloads"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/rebalance"
)

// place is what is known of a namespace in addition its pods.
type place struct {
	*pass
	namespace string
	// mixes are those that were read, by name.
	mixes map[string]*v1alpha1.CapacityMix
	// budgets are read when they are first requested: only a workload that is out of its mix does.
	budgets     []rebalance.DisruptionBudget
	budgetsRead bool
	// holders are the placeholders.
	holders []*clusterstate.Pod
}

// readMixes reads all mixes of the namespace. They are the cache's and must not be changed.
func (at *place) readMixes(ctx context.Context) error {
	var mixes v1alpha1.CapacityMixList
	if err := at.Reader.List(ctx, &mixes, client.InNamespace(at.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	at.mixes = make(map[string]*v1alpha1.CapacityMix, len(mixes.Items))
	for i := range mixes.Items {
		at.mixes[mixes.Items[i].Name] = &mixes.Items[i]
	}
	return nil
}

// mix returns a mix, nil if there is none of that name.
func (at *place) mix(ctx context.Context, name string) (*v1alpha1.CapacityMix, error) {
	if at.mixes != nil || name == "" {
		return at.mixes[name], nil
	}
	cm := &v1alpha1.CapacityMix{}
	err := at.Reader.Get(ctx, client.ObjectKey{Namespace: at.namespace, Name: name}, cm, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return cm, nil
}

// readBudgets reads the budgets if a decision about a workload may request them.
func (at *place) readBudgets(ctx context.Context, e *workloads.Entry) error {
	if at.budgetsRead || e.WrongSince.IsZero() {
		return nil
	}
	var budgets policyv1.PodDisruptionBudgetList
	if err := at.Reader.List(ctx, &budgets, client.InNamespace(at.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range budgets.Items {
		b, err := rebalance.FromPDB(&budgets.Items[i])
		if err != nil { // it selects no pod, as far as the eviction API is concerned
			continue
		}
		at.budgets = append(at.budgets, b)
	}
	at.budgetsRead = true
	return nil
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
