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
