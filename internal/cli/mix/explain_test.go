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

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/cli/show"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/policies/decision"
	"berth.dev/berth/test/clitest"
)

// explained returns the explanation of every pod, as text, with capacity for all.
func explained(t *testing.T, c *overview.Cluster, event *corev1.Event) string {
	t.Helper()
	var text []string
	for _, pod := range c.Pods {
		q := overview.PodQuestion{Cluster: c, Pod: pod, Now: clitest.Now}
		q.Room = func() (overview.Room, func(), error) { return overview.Ample{}, func() {}, nil }
		if event != nil && event.InvolvedObject.Name == pod.Name {
			q.Borrowed = event
		}
		out, err := overview.Explain(context.Background(), q)
		require.NoError(t, err)
		block, _ := clitest.Printed(t, printers.Text, func(o *command.Options) error { return show.Explanation(o, out) })
		text = append(text, block)
		asJSON, err := json.Marshal(out)
		require.NoError(t, err)
		assert.Contains(t, string(asJSON), `"governed":`)
	}
	return strings.Join(text, "\n")
}

func TestExplainOfThePodsWithTheGate(t *testing.T) {
	clitest.Golden(t, "explain-gates.txt", explained(t, clitest.GatedShop().Cluster(t), nil))
}

// Only the controller proves that there is a place for the replacement beside the pod.
func TestExplainHasWhatHoldsAReplicaOnADrainedNode(t *testing.T) {
	const why = "node o1 is being drained, and pod web-7dd8c6474c-0 is not released: no on-demand node has free capacity for its replacement"
	drained := func(n *corev1.Node) {
		n.Spec.Unschedulable, n.Annotations = true, map[string]string{v1alpha1.DrainAnnotation: "now"}
	}
	shop := func(blocked *v1alpha1.BlockedMove) string {
		s := &clitest.Shop{}
		s.Node("o1", "on-demand", drained)
		s.Node("s1", "spot")
		s.Mix("web", 50, 1, func(m *v1alpha1.CapacityMix) {
			m.Status.ObservedGeneration = 1
			m.Status.Workloads = []v1alpha1.WorkloadMix{{Kind: "Deployment", Name: "web", Revision: "web-7dd8c6474c", Blocked: blocked}}
		})
		s.Deployment("web", nil, "o1", "s1")
		return explained(t, s.Cluster(t), nil)
	}
	text := shop(&v1alpha1.BlockedMove{Reason: "InsufficientCapacity", Message: why})
	assert.Contains(t, text, "InsufficientCapacity: "+why)
	assert.Contains(t, text, "The node of the pod departs, and no replica of its workload is moved: "+why+".")
	assert.NotContains(t, shop(nil), "The node of the pod departs", "it may be about to leave")
}

func TestExplainShowsTheDecisionsThatWereRead(t *testing.T) {
	e := &overview.Explanation{Namespace: "shop", Pod: "web-0", Decisions: []*decision.Record{
		{ID: "1a2b3c4d-2", Time: clitest.Ago(0).Time, Policy: "web", Outcome: decision.Bound, Node: "s1"},
		{ID: "1a2b3c4d-1", Time: clitest.Ago(0).Time, Policy: "web", Outcome: decision.Unschedulable},
	}}
	shown := func(o *command.Options) error { return show.Explanation(o, e) }
	text, _ := clitest.Printed(t, printers.Text, shown)
	assert.Regexp(t, `(?s)Name: +web-0.*\n\nAttempt: +1a2b3c4d-2\n.*\n\nAttempt: +1a2b3c4d-1\n`, text)
	asJSON, _ := clitest.Printed(t, printers.JSON, shown)
	var got overview.Explanation
	require.NoError(t, json.Unmarshal([]byte(asJSON), &got))
	assert.Equal(t, e.Decisions, got.Decisions)
	without, _ := clitest.Printed(t, printers.JSON, func(o *command.Options) error { return show.Explanation(o, &overview.Explanation{}) })
	assert.NotContains(t, without, "decisions")
}
