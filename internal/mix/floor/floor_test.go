// SPDX-License-Identifier: Apache-2.0

package floor_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/floor"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

var key = governing.GroupKey{Namespace: "shop", ID: "uid-of-web"}

// own is the label of the group.
var own = governing.FloorLabel(key)

// group is one of replicas on nodes, which have the names of their types. "" is no node.
func group(minOnDemand int32, nodes ...string) *clusterstate.Group {
	g := &clusterstate.Group{
		Key: key, Replicas: len(nodes), Counted: true,
		Governing: &governing.Mix{Source: "capacitymix/web", Mix: split.New(50, minOnDemand), ProtectFloor: true},
	}
	for i, node := range nodes {
		g.Assignments = append(g.Assignments, clusterstate.Assignment{Pod: &clusterstate.Pod{
			Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprint("uid-", i)), Node: node, Labels: map[string]string{"app": "web"},
		}})
	}
	return g
}

func input(g *clusterstate.Group) floor.Input {
	return floor.Input{
		Key: key, Group: g, InUse: func(*clusterstate.Pod) bool { return false },
		TypeOf: func(node string) capacity.Type {
			return map[string]capacity.Type{"spot": capacity.Spot, "on-demand": capacity.OnDemand}[node]
		},
		Overlapping: func(map[string]string) string { return "" },
	}
}

// changes are the labels that a decision writes, by pod.
func changes(d floor.Decision) map[string]string {
	all := map[string]string{}
	for _, c := range d.Changes {
		all[c.Pod.Name] = c.Value
	}
	return all
}

func TestABudgetRequiresTheFloor(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*clusterstate.Group)
		want   int
	}{
		"of a large group":                {func(*clusterstate.Group) {}, 3},
		"of fewer replicas than that":     {func(g *clusterstate.Group) { g.Replicas = 2 }, 2},
		"of a group that is scaled to 0":  {func(g *clusterstate.Group) { g.Replicas = 0 }, 0},
		"none without the setting":        {func(g *clusterstate.Group) { g.Governing.ProtectFloor = false }, 0},
		"none where there is no floor":    {func(g *clusterstate.Group) { g.Governing.Mix.MinOnDemand = 0 }, 0},
		"none for a budget that counts":   {func(g *clusterstate.Group) { g.Units = true }, 0},
		"of replicas that do not run yet": {func(g *clusterstate.Group) { g.Assignments = nil }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			g := group(3, "on-demand", "on-demand", "on-demand", "spot")
			tc.change(g)
			d := floor.Decide(input(g))
			assert.Equal(t, tc.want, d.Floor)
			if d.Floor == 0 {
				assert.Empty(t, d.Changes, "nothing is written")
			}
		})
	}
	assert.Zero(t, floor.Decide(floor.Input{}), "a group that is gone")
}

func TestOnlyReplicasOnOnDemandAreLabelled(t *testing.T) {
	g := group(2, "on-demand", "spot", "", "unheard-of", "on-demand", "spot", "unheard-of", "on-demand")
	for i, label := range map[int]string{4: own, 5: own, 6: own, 7: "of another group"} {
		g.Assignments[i].Pod.Labels = map[string]string{"app": "web", v1alpha1.FloorLabel: label}
	}
	d := floor.Decide(input(g))
	assert.Equal(t, map[string]string{"web-0": own, "web-5": "", "web-7": own}, changes(d))
	assert.Equal(t, v1alpha1.ReasonBudgetsKept, d.Reason)
}

func TestALabelOfAnotherClientStays(t *testing.T) {
	g := group(1, "on-demand", "spot", "on-demand")
	g.Assignments[1].Pod.Labels = map[string]string{v1alpha1.FloorLabel: own}
	in := input(g)
	in.InUse = func(p *clusterstate.Pod) bool { return p.Name != "web-2" }
	d := floor.Decide(in)
	assert.Equal(t, map[string]string{"web-0": own, "web-2": own}, changes(d), "a pod without the label gets it")
	assert.Equal(t, v1alpha1.ReasonLabelInUse, d.Reason)
	assert.Contains(t, d.Message, "web-1")
	assert.Equal(t, 1, d.Floor, "the others are protected")
}

func TestAnotherBudgetExcludesThatOfBerth(t *testing.T) {
	g := group(1, "on-demand", "on-demand", "spot")
	g.Assignments[2].Pod.Labels = map[string]string{"app": "other"}
	in := input(g)
	in.Overlapping = func(labels map[string]string) string {
		if labels["app"] == "other" {
			return "users"
		}
		return ""
	}
	d := floor.Decide(in)
	assert.Zero(t, d.Floor)
	assert.Empty(t, d.Changes)
	assert.Equal(t, v1alpha1.ReasonOverlappingBudget, d.Reason)
	assert.Contains(t, d.Message, `"users"`)

	in = input(g)
	in.TooMany = true
	assert.Equal(t, v1alpha1.ReasonTooManyBudgets, floor.Decide(in).Reason)
	g.Units = true
	assert.Equal(t, v1alpha1.ReasonUnits, floor.Decide(input(g)).Reason)
}

// Evictions are those of the Eviction API: a pod that is not Ready goes, and one with the label if more are Ready than the budget requires.
func TestEvictionsLeaveTheFloor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.SliceOfN(rapid.SampledFrom([]string{"spot", "on-demand", ""}), 1, 12).Draw(t, "nodes")
		g := group(rapid.Int32Range(0, 6).Draw(t, "floor"), nodes...)
		g.Replicas = rapid.IntRange(0, 12).Draw(t, "replicas")
		for _, s := range g.Assignments {
			s.Pod.Ready = s.Pod.Node != "" && rapid.IntRange(0, 3).Draw(t, "ready") > 0
			if label := rapid.SampledFrom([]string{"", own, "other"}).Draw(t, "label"); label != "" {
				s.Pod.Labels[v1alpha1.FloorLabel] = label
			}
		}
		d := floor.Decide(input(g))
		require.LessOrEqual(t, d.Floor, g.Governing.Mix.OnDemand(g.Replicas), "the mix has so many on on-demand")
		if d.Floor == 0 {
			return
		}
		for _, c := range d.Changes {
			if c.Pod.Labels[v1alpha1.FloorLabel] = c.Value; c.Value == "" {
				delete(c.Pod.Labels, v1alpha1.FloorLabel)
			}
		}
		require.Empty(t, floor.Decide(input(g)).Changes, "labels are written once")

		labelled, ready := 0, 0
		for _, s := range g.Assignments {
			if s.Pod.Ready && s.Pod.Labels[v1alpha1.FloorLabel] == own {
				labelled++
			}
			if s.Pod.Ready && s.Pod.Node == "on-demand" {
				ready++
			}
		}
		before := ready
		order := make([]int, len(nodes))
		for i := range order {
			order[i] = i
		}
		for _, i := range rapid.Permutation(order).Draw(t, "order") {
			p := g.Assignments[i].Pod
			counts := p.Ready && p.Labels[v1alpha1.FloorLabel] == own
			if counts && labelled <= d.Floor {
				continue
			}
			if counts {
				labelled--
			}
			if p.Ready && p.Node == "on-demand" {
				ready--
			}
		}
		require.Equal(t, min(d.Floor, before), ready, "evictions go down to the floor, and not below")
	})
}

func TestTheConditionNamesTheFirstWorkload(t *testing.T) {
	kept, bad := floor.Verdict{Reason: v1alpha1.ReasonBudgetsKept}, floor.Verdict{Reason: v1alpha1.ReasonUnits, Message: "why"}
	_, decided := floor.Condition(3, nil)
	assert.False(t, decided, "the condition of before stays")

	c, decided := floor.Condition(0, nil)
	assert.True(t, decided)
	assert.Equal(t, v1alpha1.ReasonNoFloor, c.Reason)

	c, _ = floor.Condition(3, []floor.Report{{Workload: "b", Verdict: kept}, {Workload: "a"}})
	assert.Equal(t, "True BudgetsKept evictions leave 3 replicas of each workload on on-demand nodes", fmt.Sprint(c.Status, " ", c.Reason, " ", c.Message))

	c, _ = floor.Condition(3, []floor.Report{{Workload: "c", Verdict: bad}, {Workload: "a", Verdict: kept}, {Workload: "b", Verdict: bad}})
	assert.Equal(t, "False UnitsOfPods 2 of 3 workloads: b: why", fmt.Sprint(c.Status, " ", c.Reason, " ", c.Message))
}

// released is a pod that was released from the group.
func released() *clusterstate.Pod {
	p := &clusterstate.Pod{Name: "released", UID: "uid-released", Running: true, Labels: map[string]string{v1alpha1.FloorLabel: own}}
	p.Owner = &metav1.OwnerReference{Kind: "Deployment"}
	p.Annotations = map[string]string{v1alpha1.ReleasedAnnotation: pods.Release{Group: key.ID, ReplicaSet: "uid-of-rs"}.Value(p.UID)}
	return p
}

func TestAReleaseDoesNotLowerTheFloor(t *testing.T) {
	in := floor.Input{Key: key, Missing: 1, Labelled: []*clusterstate.Pod{released()}}
	assert.Equal(t, floor.Decision{Stays: true}, floor.Decide(in), "the only replica was released")
	in.Missing = 0
	assert.Zero(t, floor.Decide(in), "nothing is to come")

	in = input(group(3, "on-demand", "on-demand"))
	in.Missing = 1
	assert.Equal(t, 2, floor.Decide(in).Floor, "of two that the owner reports")
	in.Group.Counted = false
	assert.Equal(t, 3, floor.Decide(in).Floor, "of three that were counted")
}

// A drain would otherwise evict another replica as soon as the successor is Ready, for which there may be no place. The released one ends
// after an hour, below the floor.
func TestAReleasedReplicaDoesNotCountForTheFloor(t *testing.T) {
	g := group(2, "on-demand", "on-demand", "on-demand")
	in := input(g)
	in.Labelled = []*clusterstate.Pod{released()}
	d := floor.Decide(in)
	assert.Equal(t, 3, d.Floor)
	first := 0
	for _, c := range d.Changes {
		if c.First {
			first++
		}
	}
	assert.Equal(t, 2, first, "the labels of replicas that the floor requires")
	g.Governing.Mix.MinOnDemand = 0
	assert.Zero(t, floor.Decide(in).Floor)
}

func TestOnlyReplicasOfTheGroupCount(t *testing.T) {
	g := group(1, "on-demand", "on-demand")
	g.Assignments[0].Pod.Labels[v1alpha1.FloorLabel] = own
	orphan := &clusterstate.Pod{Name: "orphan", UID: "uid-orphan", Node: "on-demand", Labels: map[string]string{v1alpha1.FloorLabel: own}}
	in := input(g)
	in.Labelled = []*clusterstate.Pod{g.Assignments[0].Pod, orphan, released()}
	d := floor.Decide(in)
	assert.Equal(t, map[string]string{"web-1": own, "orphan": ""}, changes(d))
	assert.Equal(t, v1alpha1.ReasonBudgetsKept, d.Reason)

	in.InUse = func(p *clusterstate.Pod) bool { return p == orphan }
	d = floor.Decide(in)
	assert.Equal(t, map[string]string{"web-1": own}, changes(d))
	assert.Equal(t, v1alpha1.ReasonLabelInUse, d.Reason)
	assert.Contains(t, d.Message, "orphan")
}

func TestTheLabelsThatTheFloorRequiresAreTheFirst(t *testing.T) {
	g := group(2, "on-demand", "on-demand", "on-demand", "spot")
	g.Assignments[1].Pod.Labels[v1alpha1.FloorLabel] = own
	g.Assignments[3].Pod.Labels[v1alpha1.FloorLabel] = own
	first := map[string]bool{}
	for _, c := range floor.Decide(input(g)).Changes {
		first[c.Pod.Name] = c.First
	}
	assert.Equal(t, map[string]bool{"web-0": true, "web-2": false, "web-3": false}, first)
}

func TestEachSetOfLabelsIsMatchedOnce(t *testing.T) {
	g, matched := group(2, "on-demand", "spot", "on-demand", "spot"), 0
	for i := range g.Assignments {
		g.Assignments[i].Pod.Labels = g.Assignments[i%2].Pod.Labels
	}
	in := input(g)
	in.Overlapping = func(map[string]string) string { matched++; return "" }
	floor.Decide(in)
	assert.Equal(t, 2, matched)
	in.Overlapping = nil
	assert.Equal(t, v1alpha1.ReasonBudgetsKept, floor.Decide(in).Reason, "users have none")
}
