// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/cli/mix/plan"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/live"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/internal/policies/decision"
	"berth.dev/berth/test/clitest"
)

// explained returns the explanation of every pod, as text, with capacity for all.
func explained(t *testing.T, c *live.Cluster, event *corev1.Event) string {
	t.Helper()
	var text []string
	for _, pod := range c.Pods {
		e := &explainer{cluster: c, pod: pod, record: c.State.Pod(pod.Namespace, pod.Name), now: clitest.Now}
		e.room = func() (plan.Room, func(), error) { return plan.Ample{}, func() {}, nil }
		if event != nil && event.InvolvedObject.Name == pod.Name {
			e.borrowed = event
		}
		out, err := e.explain(context.Background())
		require.NoError(t, err)
		var block strings.Builder
		require.NoError(t, out.write(&block, clitest.Now))
		text = append(text, block.String())
		asJSON, err := json.Marshal(out)
		require.NoError(t, err)
		assert.Contains(t, string(asJSON), `"governed":`)
	}
	return strings.Join(text, "\n")
}

// Explain named slot 4 of a pod of which the scheduler wrote that slot 2 needs on-demand.
func TestAPendingPodHasTheSlotThatTheSchedulerTried(t *testing.T) {
	m := split.New(50, 1)
	g := &clusterstate.Group{Governing: &governing.Mix{Mix: m}}
	assignment := clusterstate.Assignment{Place: clusterstate.Pending, Assignment: split.Assignment{Wants: m.TypeOf(4), Pod: split.Pod{Slot: 4, On: m.TypeOf(4)}}}
	counted := SlotFacts{Number: 4, Type: m.TypeOf(4).String(), From: "count"}
	two := m.TypeOf(2).String()
	other := m.TypeOf(2).Other().String()
	for message, want := range map[string]SlotFacts{
		"0/3 nodes are available: 2 node(s) are " + other + ", slot 2 needs " + two + ", 1 Insufficient cpu.": {Number: 2, Type: two, From: "scheduler"},
		"0/3 nodes are available: 2 node(s) are " + two + ", slot 2 needs " + other + ".":                     counted,
		"0/3 nodes are available: 3 Insufficient cpu.":                                                        counted,
		"slot 99999999 needs spot": counted,
		"":                         counted,
	} {
		pod := &corev1.Pod{}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}}
		e := &explainer{pod: pod, record: &clusterstate.Pod{}}
		got := e.slotOf(g, assignment)
		assert.Equal(t, want, got, message)
		assert.Equal(t, want.Type, got.waitsFor(assignment), message)
	}
	settled := assignment
	settled.Place = clusterstate.Settled
	e := &explainer{pod: &corev1.Pod{}, record: &clusterstate.Pod{}}
	assert.Equal(t, counted, e.slotOf(g, settled))
}

func TestExplainOfThePodsWithTheGate(t *testing.T) {
	clitest.Golden(t, "explain-gates.txt", explained(t, clitest.GatedShop().Cluster(t), nil))
}

func TestExplainShowsTheDecisionsThatWereRead(t *testing.T) {
	e := &Explanation{Namespace: "shop", Pod: "web-0", Decisions: []*decision.Record{
		{ID: "1a2b3c4d-2", Time: clitest.Ago(0).Time, Policy: "web", Outcome: decision.Bound, Node: "s1"},
		{ID: "1a2b3c4d-1", Time: clitest.Ago(0).Time, Policy: "web", Outcome: decision.Unschedulable},
	}}
	text, _ := clitest.Printed(t, printers.Text, e.Show)
	assert.Regexp(t, `(?s)Name: +web-0.*\n\nAttempt: +1a2b3c4d-2\n.*\n\nAttempt: +1a2b3c4d-1\n`, text)
	asJSON, _ := clitest.Printed(t, printers.JSON, e.Show)
	var got Explanation
	require.NoError(t, json.Unmarshal([]byte(asJSON), &got))
	assert.Equal(t, e.Decisions, got.Decisions)
	without, _ := clitest.Printed(t, printers.JSON, (&Explanation{}).Show)
	assert.NotContains(t, without, "decisions")
}
