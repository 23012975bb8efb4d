// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
)

// shift is another mix for pods of a workload. From and To are sources of a mix, "" for none.
type shift struct{ Namespace, Workload, From, To string }

func (s shift) fields() []string { return []string{s.Namespace, s.Workload, s.From, s.To} }

// overruled is a mix that selects pods of a workload that the source By governs.
type overruled struct{ Namespace, Mix, Workload, By string }

func (o overruled) fields() []string { return []string{o.Namespace, o.Mix, o.Workload, o.By} }

// counted is a number of pods of which the same is true.
type counted[T any] struct {
	Of   T
	Pods int
}

// sorted returns counts in the order of the fields.
func sorted[T interface {
	comparable
	fields() []string
}](counts map[T]int) (out []counted[T]) {
	for of, pods := range counts {
		out = append(out, counted[T]{of, pods})
	}
	slices.SortFunc(out, func(a, b counted[T]) int { return slices.Compare(a.Of.fields(), b.Of.fields()) })
	return out
}

// outcomes plays the moves of every workload that mixes govern or governed before, which the shifts have.
func outcomes(ctx context.Context, c *Cluster, mixes []*v1alpha1.CapacityMix, shifted []counted[shift], room Room, now time.Time,
) (out []Outcome, err error) {
	namespaces, concerned := map[string]bool{}, map[string]bool{}
	for _, m := range mixes {
		namespaces[m.Namespace] = true
		concerned[m.Namespace+"/"+governing.SourceCapacityMix+m.Name] = true
	}
	for _, s := range shifted {
		concerned[s.Of.Namespace+"/"+s.Of.Workload] = true
	}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		for _, g := range c.State.Groups(namespace) {
			if !concerned[namespace+"/"+g.Governing.Source] && !concerned[namespace+"/"+workloadName(g.Workload)] {
				continue
			}
			settings, err := c.RebalanceSettings(g.Governing, c.MixOf(namespace, g.Governing))
			if err != nil {
				return nil, fmt.Errorf("CapacityMix of %s: %w", g.Workload, err)
			}
			in := PlanInput(g, settings, c.Budgets[namespace], c.Profile.SchedulerNames, c.scaleOf(ctx, &g), now)
			in.Cluster.Pauses = c.pausesOver(ctx, &g)
			outcome, err := Simulate(ctx, in, room)
			if err != nil {
				return nil, err
			}
			out = append(out, outcome)
		}
	}
	return out, nil
}

// put replaces or adds a mix.
func put(c *Cluster, m *v1alpha1.CapacityMix) error {
	if err := c.Store.Set(m); err != nil {
		return err
	}
	c.Mixes = slices.DeleteFunc(slices.Clone(c.Mixes),
		func(o *v1alpha1.CapacityMix) bool { return o.Namespace == m.Namespace && o.Name == m.Name })
	c.Mixes = append(c.Mixes, m)
	return nil
}

// governed returns the source that governs each live pod, by UID.
func governed(c *Cluster) map[types.UID]string {
	out := map[types.UID]string{}
	for _, p := range c.LivePods() {
		if found, _ := c.State.Resolve(p); found != nil {
			out[p.UID] = found.Source
		}
	}
	return out
}

// shifts compares the sources with those of before, by workload.
func shifts(c *Cluster, before map[types.UID]string) []counted[shift] {
	after, counts := governed(c), map[shift]int{}
	for _, p := range c.LivePods() {
		if from, to := before[p.UID], after[p.UID]; from != to {
			counts[shift{Namespace: p.Namespace, Workload: ownerOf(c, p), From: from, To: to}]++
		}
	}
	return sorted(counts)
}

// overrulings finds the pods that a mix selects and does not get.
func overrulings(c *Cluster, mixes []*v1alpha1.CapacityMix) []counted[overruled] {
	counts := map[overruled]int{}
	for _, m := range mixes {
		_, selector, err := governing.FromCapacityMix(m)
		if err != nil {
			continue
		}
		for _, p := range c.LivePods() {
			if p.Namespace != m.Namespace || !selector.Matches(labels.Set(p.Labels)) {
				continue
			}
			found, _ := c.State.Resolve(p)
			if found != nil && found.Source != governing.SourceCapacityMix+m.Name {
				counts[overruled{Namespace: m.Namespace, Mix: m.Name, Workload: ownerOf(c, p), By: found.Source}]++
			}
		}
	}
	return sorted(counts)
}

// workloadName is what kubectl calls a workload.
func workloadName(w clusterstate.Workload) string { return w.Kind + "/" + w.Name }

// ownerOf is the workload of a pod, whether or not a mix governs it. The
// workload above a ReplicaSet is known only where the ReplicaSet could be read.
func ownerOf(c *Cluster, p *clusterstate.Pod) string {
	if p.Owner == nil {
		return "Pod/" + p.Name
	}
	return workloadName(c.WorkloadOf(p))
}
