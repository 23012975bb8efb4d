// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/mix/plan"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/simulation"
)

// shift is a number of pods of a workload that come under another mix.
type shift struct {
	Namespace, Workload string
	Pods                int
	// From and To are sources of a mix, "" for none.
	From, To string
}

// overruled is a number of pods that a mix selects and something else governs.
type overruled struct {
	Namespace, Mix, Workload string
	Pods                     int
	// By is the source that governs them.
	By string
}

// changes is what a change of mixes does.
type changes struct {
	Outcomes  []plan.Outcome
	Shifts    []shift
	Overruled []overruled
}

// change puts mixes into a cluster and plays the moves of every workload that
// they govern, or governed before. The cluster's store has them afterwards.
func change(ctx context.Context, c *live.Cluster, mixes []*v1alpha1.CapacityMix, room plan.Room, now time.Time) (*changes, error) {
	namespaces, concerned := map[string]bool{}, map[string]bool{}
	for _, m := range mixes {
		namespaces[m.Namespace] = true
		concerned[m.Namespace+"/"+governing.SourceCapacityMix+m.Name] = true
	}
	before := governed(c)
	for _, m := range mixes {
		if err := put(c, m); err != nil {
			return nil, fmt.Errorf("CapacityMix %s/%s: %w", m.Namespace, m.Name, err)
		}
	}
	out := &changes{Shifts: shifts(c, before), Overruled: overrulings(c, mixes)}
	moved := map[string]bool{} // workloads that change hands
	for _, s := range out.Shifts {
		moved[s.Namespace+"/"+s.Workload] = true
	}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		for _, g := range c.State.Groups(namespace) {
			if !concerned[namespace+"/"+g.Governing.Source] && !moved[namespace+"/"+workloadName(g.Workload)] {
				continue
			}
			settings, err := live.RebalanceSettings(g.Governing, c.MixOf(namespace, g.Governing))
			if err != nil {
				return nil, fmt.Errorf("CapacityMix of %s: %w", g.Workload, err)
			}
			in := plan.Input(g, settings, c.Budgets[namespace], c.Profile.SchedulerNames, now)
			outcome, err := plan.Simulate(ctx, in, room)
			if err != nil {
				return nil, err
			}
			out.Outcomes = append(out.Outcomes, outcome)
		}
	}
	return out, nil
}

// put replaces or adds a mix.
func put(c *live.Cluster, m *v1alpha1.CapacityMix) error {
	if err := c.Store.Set(m); err != nil {
		return err
	}
	c.Mixes = slices.DeleteFunc(slices.Clone(c.Mixes),
		func(o *v1alpha1.CapacityMix) bool { return o.Namespace == m.Namespace && o.Name == m.Name })
	c.Mixes = append(c.Mixes, m)
	return nil
}

// governed returns the source that governs each live pod, by UID.
func governed(c *live.Cluster) map[types.UID]string {
	out := map[types.UID]string{}
	for _, p := range c.LivePods() {
		if found, _ := c.State.Resolve(p); found != nil {
			out[p.UID] = found.Source
		}
	}
	return out
}

// shifts compares the sources with those of before, by workload.
func shifts(c *live.Cluster, before map[types.UID]string) []shift {
	after := governed(c)
	count := map[shift]int{}
	for _, p := range c.LivePods() {
		if from, to := before[p.UID], after[p.UID]; from != to {
			count[shift{Namespace: p.Namespace, Workload: ownerOf(c, p), From: from, To: to}]++
		}
	}
	var out []shift
	for s, n := range count {
		s.Pods = n
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b shift) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.From, b.From),
			cmp.Compare(a.To, b.To))
	})
	return out
}

// overrulings finds the pods that a mix selects and does not get.
func overrulings(c *live.Cluster, mixes []*v1alpha1.CapacityMix) []overruled {
	count := map[overruled]int{}
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
				count[overruled{Namespace: m.Namespace, Mix: m.Name, Workload: ownerOf(c, p), By: found.Source}]++
			}
		}
	}
	var out []overruled
	for o, n := range count {
		o.Pods = n
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b overruled) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Mix, b.Mix), cmp.Compare(a.Workload, b.Workload),
			cmp.Compare(a.By, b.By))
	})
	return out
}

// workloadName is what kubectl calls a workload.
func workloadName(w clusterstate.Workload) string { return w.Kind + "/" + w.Name }

// ownerOf is the workload of a pod, whether or not a mix governs it. The
// workload above a ReplicaSet is known only where the ReplicaSet could be read.
func ownerOf(c *live.Cluster, p *clusterstate.Pod) string {
	if p.Owner == nil {
		return "Pod/" + p.Name
	}
	return workloadName(c.WorkloadOf(p))
}

// replayed is a room that the scheduler's own filters judge. Every replacement
// that fits takes its capacity, so that the next one has what is left.
type replayed struct {
	snapshot *simulation.Snapshot
	cluster  *live.Cluster
	// gone are those that have made way.
	gone []types.UID
}

// newReplayed returns the capacity of a snapshot of a cluster.
func newReplayed(snapshot *simulation.Snapshot, cluster *live.Cluster) *replayed {
	return &replayed{snapshot: snapshot, cluster: cluster}
}

// Prove implements Room. It identifies a replacement by the pod that it replaces.
func (r *replayed) Prove(ctx context.Context, p *clusterstate.Pod, t capacity.Type) (plan.Proof, error) {
	original := r.cluster.Pod(p.Namespace, p.Name)
	if original == nil {
		return plan.Proof{}, fmt.Errorf("pod %s/%s no longer exists", p.Namespace, p.Name)
	}
	answer, err := r.snapshot.Fits(ctx, simulation.Question{
		Pod: original, Gone: append(slices.Clone(r.gone), original.UID),
		Nodes: func(n *corev1.Node) bool {
			of, _ := r.cluster.Classifier.Classify(n)
			_, departing := capacity.Departing(n)
			return of == t && !departing
		},
		Wants: t, Tolerations: r.cluster.Tolerations(p, t),
	})
	switch {
	case errors.Is(err, simulation.ErrUnknownScheduler):
		return plan.Proof{Why: err.Error()}, nil
	case err != nil:
		return plan.Proof{}, err
	case !answer.Fits:
		return plan.Proof{Why: fmt.Sprintf("no %s node has capacity for the replacement of pod %s: %s", t, p.Name, answer.Message())}, nil
	}
	r.gone = append(r.gone, original.UID)
	r.snapshot.Assume(original, answer.Node)
	return plan.Proof{Fits: true, Node: answer.Node}, nil
}
