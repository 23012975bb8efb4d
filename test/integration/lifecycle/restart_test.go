// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/world"
)

func TestTheMixIsExactAfterTheSchedulerIsKilledAgainAndAgainInTheMiddleOfBursts(t *testing.T) {
	w := world.New(t, wide()...)
	s := w.RunScheduler(world.SchedulerOptions(world.SecondScheduler))
	bursts(w, world.Length(5, 10), []int{fewest, 100}, disturbance{
		strike:  func() { world.Kill(s) },
		recover: func() { s = w.RunScheduler(world.SchedulerOptions(world.SecondScheduler)) },
	})
}

func TestTheMixIsExactAfterTheAPIServerIsKilledInTheMiddleOfABurst(t *testing.T) {
	w := world.New(t, wide()...)
	s := w.RunScheduler(world.SchedulerOptions(world.SecondScheduler))
	h := w.History()
	bursts(w, 1, []int{80}, disturbance{
		strike: func() { require.NoError(t, w.Cluster.StopComponent(cluster.APIServer)) },
		// Nobody can be asked now; this is what was seen until then.
		count:   func(string) int { return h.Bound() % burst },
		recover: func() { require.NoError(t, w.Cluster.StartComponent(w.Ctx, cluster.APIServer)) },
	})
	select {
	case <-s.Done():
		require.Fail(t, "the scheduler ended with the API server", s.LogTail(20))
	default:
	}
}
