// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/rebalance"
)

// D15: the replacements of one namespace never become Ready, and its moves take all of the budget.
func TestANamespaceWhoseMovesNeverEndDoesNotKeepOthersFromTheirs(t *testing.T) {
	p, s := strayController(t, 3)
	p.Defaults.MaxConcurrent, p.Defaults.Stabilization = 10, 0
	for i := range 8 {
		pod := podOf("aaa", sceneOwner{"clone.example/v1", "CloneSet", "broken"}, i, 0)
		pod.Spec.NodeName = "on-demand"
		pod.Annotations[v1alpha1.SpotPercentAnnotation] = "100"
		s.pods[pod.Name] = pod
		p.State.SetPod(pod)
	}
	p.Changed(everything)
	p.drain(t)
	require.Len(t, s.evicted, 5, "the limit")
	for _, name := range s.evicted {
		require.True(t, strings.HasPrefix(name, "broken-"), "it was first")
	}
	e, _ := p.Workloads.Get(strayKey)
	assert.Equal(t, rebalance.ReasonClusterBudget, e.Verdict.Reason)

	p.Clock.(*clocktesting.FakeClock).Step(rebalance.SlowAfter)
	for range 3 {
		p.drain(t)
	}
	assert.Len(t, s.evicted, 8)
	for _, name := range s.evicted[5:] {
		assert.True(t, strings.HasPrefix(name, "web-"), "its own slow moves keep the broken namespace from more, and no other: %s", name)
	}
}
