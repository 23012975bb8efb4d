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

	"berth.dev/berth/internal/cli/clitest"
	"berth.dev/berth/internal/cli/live"
	"berth.dev/berth/internal/cli/mix/plan"
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
