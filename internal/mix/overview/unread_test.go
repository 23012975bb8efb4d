// SPDX-License-Identifier: Apache-2.0

package overview_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

// withoutNodes is what a user reads who may not list nodes.
func withoutNodes(t require.TestingT, s *shop) overview.Input {
	s.nodes = nil
	in := s.input(t)
	in.Unread.Nodes = true
	return in
}

func named(t require.TestingT, o *overview.Overview, name string) *overview.Workload {
	i := slices.IndexFunc(o.Workloads, func(w overview.Workload) bool { return w.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return &o.Workloads[i]
}

func statesOf(w *overview.Workload) (states []overview.State) {
	for _, s := range w.Slots {
		states = append(states, s.State)
	}
	return states
}

// A user who may not list nodes saw every slot on the wrong type, and no workload that satisfies its mix.
func TestWithoutNodesThePlacesOfPodsAreUnknown(t *testing.T) {
	o := overview.Of(withoutNodes(t, oneOfEach()))
	web := named(t, o, "web")
	assert.True(t, web.Satisfied.Unknown())
	assert.Equal(t, overview.ReasonUnknown, web.Reason)
	assert.Empty(t, web.Message)
	assert.Equal(t, slices.Repeat([]overview.State{overview.Unknown}, 4), statesOf(web))
	assert.Equal(t, overview.Known(overview.Split{Spot: 2, OnDemand: 2}), web.Desired)
	assert.Equal(t, overview.Known(0), web.Pending)
	for _, s := range web.Slots {
		assert.NotEmpty(t, s.Node)
		assert.Empty(t, s.NodeType, "unknown is a type that a node can have")
	}

	// What is pending is known, and so is that the mix is not satisfied.
	api := named(t, o, "api")
	assert.Equal(t, overview.Known(false), api.Satisfied)
	assert.Equal(t, overview.Known(2), api.Pending)
	assert.Contains(t, statesOf(api), overview.Pending)
	assert.Contains(t, statesOf(api), overview.NoPod)
	assert.NotContains(t, statesOf(api), overview.Borrowed)
	assert.NotContains(t, api.Message, "on the wrong type")

	assert.Nil(t, o.Nodes)
	assert.True(t, o.Totals.Satisfied.Unknown())
	assert.True(t, o.Totals.Actual.Unknown())
	assert.Equal(t, overview.Known(4), o.Totals.Workloads)
	assert.Equal(t, "api", o.Workloads[0].Name, "what is certainly not satisfied comes first")

	var got struct {
		Nodes  *[]any
		Totals struct {
			Satisfied, Actual, Borrowed, Departing *any
			Pending, Replicas                      *int
		}
		Workloads []struct{ Satisfied *bool }
	}
	text, err := json.Marshal(o)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &got))
	assert.Nil(t, got.Nodes)
	assert.Nil(t, got.Totals.Satisfied)
	assert.Nil(t, got.Totals.Actual)
	assert.Nil(t, got.Totals.Borrowed)
	assert.Nil(t, got.Totals.Departing)
	assert.Equal(t, 2, *got.Totals.Pending)
	assert.Equal(t, 11, *got.Totals.Replicas)
	assert.Nil(t, got.Workloads[1].Satisfied)
}

// The controller reads the nodes: what it reports about the same replicas is known.
func TestWithoutNodesTheReportOfTheControllerCounts(t *testing.T) {
	web := func(change func(*v1alpha1.WorkloadMix)) *overview.Workload {
		s := oneOfEach()
		s.mixes[0].Status.ObservedGeneration = 2
		s.mixes[0].Status.Workloads = []v1alpha1.WorkloadMix{{
			Kind: "ReplicaSet", Name: "web", Replicas: 4, Actual: v1alpha1.ReplicaSplit{Spot: 2, OnDemand: 2},
		}}
		change(&s.mixes[0].Status.Workloads[0])
		return named(t, overview.Of(withoutNodes(t, s)), "web")
	}
	w := web(func(*v1alpha1.WorkloadMix) {})
	assert.Equal(t, overview.Known(overview.Split{Spot: 2, OnDemand: 2}), w.Actual)
	assert.Equal(t, overview.Known(true), w.Satisfied)
	assert.Equal(t, slices.Repeat([]overview.State{overview.Unknown}, 4), statesOf(w), "the report does not name the nodes")

	w = web(func(r *v1alpha1.WorkloadMix) { r.Actual, r.Borrowed = v1alpha1.ReplicaSplit{Spot: 1, OnDemand: 3}, 1 })
	assert.Equal(t, overview.Known(false), w.Satisfied)
	assert.Equal(t, "1 of 4 replicas runs on the wrong type.", w.Message)
	assert.Equal(t, overview.Known(1), w.Borrowed)

	w = web(func(r *v1alpha1.WorkloadMix) { r.Replicas = 3 })
	assert.True(t, w.Satisfied.Unknown(), "the report is about other replicas")
	assert.True(t, w.Actual.Unknown())
}

// Without the pods or the mixes, the number of workloads is unknown.
func TestWithoutPodsOrMixesTheTotalsAreUnknown(t *testing.T) {
	for name, unread := range map[string]overview.Unread{"pods": {Pods: true}, "mixes": {Mixes: true}} {
		s := oneOfEach()
		if unread.Pods {
			s.pods = nil
		} else {
			s.mixes = nil
		}
		in := s.input(t)
		in.Unread = unread
		o := overview.Of(in)
		want := overview.Totals{}
		if unread.Pods {
			want.Mixes = overview.Known(4)
		}
		assert.Equal(t, want, o.Totals, name)
		require.NotEmpty(t, o.Nodes)
		for _, n := range o.Nodes {
			assert.True(t, n.Pods.Unknown(), name)
		}
	}
}

// Whatever is there, without nodes nothing is claimed that the nodes could refute.
func TestFactsWithoutNodesHoldWithNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawShop(t)
		full := overview.Of(s.input(t))
		o := overview.Of(withoutNodes(t, s))
		require.Len(t, o.Workloads, len(full.Workloads))
		for i := range o.Workloads {
			w := &o.Workloads[i]
			j := slices.IndexFunc(full.Workloads, func(f overview.Workload) bool { return f.ID == w.ID && f.Namespace == w.Namespace })
			require.GreaterOrEqual(t, j, 0)
			f := &full.Workloads[j]
			require.Equal(t, f.Desired, w.Desired)
			require.Equal(t, f.Pending, w.Pending)
			if satisfied, known := w.Satisfied.Get(); known {
				require.Equal(t, f.Satisfied, overview.Known(satisfied))
			}
			require.Equal(t, w.Satisfied.Unknown(), w.Reason == overview.ReasonUnknown)
			require.NotContains(t, w.Message, "too many", "some may be on departing nodes")
			for _, slot := range w.Slots {
				require.NotContains(t, []overview.State{overview.InPlace, overview.Borrowed, overview.Departing}, slot.State)
				require.Equal(t, slot.State == overview.Unknown, slot.Node != "")
			}
		}
	})
}
