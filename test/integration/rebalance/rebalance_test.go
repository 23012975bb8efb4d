// SPDX-License-Identifier: Apache-2.0

// Package rebalance_test breaks the mix of workloads on a real control plane,
// and lets the real controller mend it.
package rebalance_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/capacity"
	"berth.dev/berth/internal/mix"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/world"
)

func TestMain(m *testing.M) { os.Exit(world.Main(m, world.Options{})) }

var spotNodes = []string{"spot-0", "spot-1", "spot-2", "spot-3", "spot-4", "spot-5"}

func TestSpotComesBackAfterAFallbackOneReplicaAtATime(t *testing.T) {
	w := world.New(t, world.Roomy()...)
	w.Cordon(true, spotNodes...)
	web := builders.Deployment("web", 10)
	w.Create(builders.CapacityMix("web", 70, 2), builders.PodDisruptionBudget("web", builders.MinAvailable("9")), web)
	w.WaitReady("web", 10)
	c := w.Controller(world.Impatient)
	// All ten are on on-demand, and nothing may be done about it.
	w.WaitStatus("web", "blocked for want of room", func(s *v1alpha1.CapacityMixStatus) bool {
		return world.BlockedBy(s, "NoRoom") && s.Actual.OnDemand == 10 && s.Desired.Spot == 7 &&
			world.Condition(s, v1alpha1.ConditionSatisfied, false, v1alpha1.ReasonOutOfMix) && world.Condition(s, v1alpha1.ConditionRebalancing, false, "NoRoom")
	})
	assert.Empty(t, w.Evictions())

	recording := w.Record("web")
	w.Cordon(false, spotNodes...)
	w.WaitStatus("web", "satisfied", func(s *v1alpha1.CapacityMixStatus) bool {
		return world.Condition(s, v1alpha1.ConditionSatisfied, true, v1alpha1.ReasonExact) && world.Condition(s, v1alpha1.ConditionRebalancing, false, "OnTarget")
	})
	w.RequireExact("web", mix.New(70, 2), 10)
	onDemand, all := recording.FewestReady(capacity.OnDemand, 10)
	assert.GreaterOrEqual(t, onDemand, 2, "Ready replicas on on-demand at any instant")
	assert.GreaterOrEqual(t, all, 9, "Ready replicas at any instant: one at a time")
	assert.Len(t, w.Evictions(), 7, "one eviction per replica that had to move")

	writes := len(w.StatusWrites())
	w.Always(world.Length(12*time.Second, 5*time.Minute), "the controller lives on", func() (bool, string) {
		select {
		case <-c.Done():
			return false, c.LogTail(20)
		default:
			return true, ""
		}
	})
	assert.Len(t, w.Evictions(), 7, "nothing more is evicted")
	assert.Len(t, w.StatusWrites(), writes, "nothing more is written")
}
