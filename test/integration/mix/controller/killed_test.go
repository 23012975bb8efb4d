// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestKillsAfterEachEvictionCauseNoExtraMove(t *testing.T) {
	w := stray(t, time.Second)
	recording := w.Record("web")
	const kills = 2
	since := ""
	for i := range kills {
		c := w.Controller(testenv.Impatient)
		w.WaitEvictions(len(w.Evictions()) + 1)
		testenv.End(c, true)
		now := outOfMixSince(w)
		// It may have been killed before it wrote a status at all.
		assert.True(t, since == "" || now == since, "outOfMixSince after kill %d: %s, before: %s", i, now, since)
		since = now
	}
	w.Controller(testenv.Impatient)
	w.WaitRepaired("web", seventy, replicas, testenv.SettleTimeout)
	assertEvicted(w, away)
	assertMostReady(t, recording)
}

// assertMostReady demands that no more replicas were missing at any instant than the budget and a kill cost.
func assertMostReady(t *testing.T, recording *testenv.Recording) {
	t.Helper()
	_, ready := recording.FewestReady(capacity.OnDemand, replicas)
	assert.GreaterOrEqual(t, ready, replicas-2, "Ready replicas at any instant: the budget is one, and one more for a kill")
}

// outOfMixSince is the time in the status, "" if there is none.
func outOfMixSince(w *testenv.World) string {
	w.T.Helper()
	s := w.Mix("web").Status
	if len(s.Workloads) == 0 || s.Workloads[0].MixNotSatisfiedSince == nil {
		return ""
	}
	return s.Workloads[0].MixNotSatisfiedSince.String()
}

func TestStandbyTakesOverWhenTheLeaderIsKilledDuringAMove(t *testing.T) {
	w := stray(t, time.Second)
	recording := w.Record("web")
	first := w.Controller(testenv.Impatient)
	w.WaitEvictions(1)
	second := w.StartController("berth-controller-2", testenv.Impatient)
	require.Zero(t, w.Metric(second, "leader_election_master_status", nil), "the second is a standby")
	w.WaitEvictions(3)
	testenv.End(first, true)
	before := len(w.Evictions())
	w.UpTo(30 * time.Second).WaitLeads(second) // twice the lease
	w.WaitRepaired("web", seventy, replicas, testenv.SettleTimeout)
	require.Less(t, before, away, "there was something left for the second to do")
	assertEvicted(w, away)
	assertMostReady(t, recording)
}

// A leader that is stopped until another one has taken over, and then goes on, writes nothing and ends.
func TestALeaderThatGoesOnAfterAnotherOneTookOverWritesNothing(t *testing.T) {
	w := stray(t, time.Second)
	first := w.Controller(testenv.Impatient)
	w.WaitRepaired("web", seventy, replicas, testenv.SettleTimeout)
	w.Eventually("no request is under way", func() (bool, string) { // which could not be taken back
		writes := w.WritesOf("berth-controller", time.Now().Add(-testenv.Short))
		return len(writes) == 0, strings.Join(writes, ", ")
	})
	first.Pause()
	defer first.Resume()
	second := w.StartController("berth-controller-2", testenv.Impatient)
	w.WaitLeads(second)

	// What the first finds when it goes on requests evictions, and for a status.
	w.ChangeMix("web", builders.SpotPercent(0))
	w.WaitEvictions(len(w.Evictions()) + 1)
	resumed := time.Now()
	first.Resume()
	w.WaitEnded(first)
	w.WaitExact("web", split.New(0, 2), replicas, testenv.SettleTimeout)
	assert.Empty(t, w.WritesOf("berth-controller", resumed))
	assert.NotEmpty(t, w.WritesOf("berth-controller-2", resumed), "which is how the other one is seen")
}

// I10, D12: no stop is as long as the renew deadline, but the lease is not renewed through several of them.
func TestSuspendedLeaderWritesNothingOnceAnotherLeads(t *testing.T) {
	slowLease := func(c *controller.Configuration) { // as impatient as a stop of two seconds allows
		c.LeaderElection.LeaseDurationSeconds, c.LeaderElection.RenewDeadlineSeconds = 6, 5
	}
	w := stray(t, time.Second)
	kubeconfig, cut := w.LeaselessKubeconfig(cluster.BerthControllerUser, "berth-controller")
	options := cluster.ProgramOptions{Name: "berth-controller", Kubeconfig: kubeconfig}
	first := w.StartControllerWith(options, testenv.Impatient, slowLease)
	defer first.Resume()
	w.WaitRepaired("web", seventy, replicas, testenv.SettleTimeout)
	second := w.StartController("berth-controller-2", testenv.Impatient, slowLease)
	cut.Store(true)
	first.Pause()
	w.ChangeMix("web", builders.SpotPercent(0)) // there is work for both
	w.ShortStops(first, 2*time.Second, func() bool { return w.Metric(second, "leader_election_master_status", nil) == 1 })
	taken := w.AcquiredAt("berth-controller")
	w.WaitEnded(first)
	w.WaitExact("web", split.New(0, 2), replicas, testenv.SettleTimeout)
	assert.Empty(t, w.WritesOf("berth-controller", taken))
	assert.NotEmpty(t, w.WritesOf("berth-controller-2", taken), "which is how the other one is seen")
}

func TestFailedMovesAreRememberedByTheNextLeader(t *testing.T) {
	w := stray(t, 6*time.Second)
	hasty := func(c *controller.Configuration) {
		c.Mix.Rebalance.MoveTimeoutSeconds = 2
		c.Mix.Rebalance.BackoffSeconds = 600
	}
	failed := func(s *v1alpha1.CapacityMixStatus) bool {
		return len(s.Workloads) == 1 && s.Workloads[0].FailedMoves == 1 && s.Workloads[0].RetryTime != nil
	}
	c := w.Controller(testenv.Impatient, hasty)
	before := w.WaitStatus("web", "a failed move", failed).Status.Workloads[0]
	assert.WithinDuration(t, time.Now().Add(600*time.Second), before.RetryTime.Time, 30*time.Second, "the next move rests for the backoff")
	testenv.End(c, true)
	c = w.Controller(testenv.Impatient, hasty)
	w.WaitBlocked("web", "BackingOff", "1 move in a row failed")
	testenv.Stays(w, testenv.Holds, "nothing more is evicted", 1, w.Evicted)
	after := w.Mix("web").Status.Workloads[0]
	assert.Equal(t, before.RetryTime, after.RetryTime)
	assert.Equal(t, before.MixNotSatisfiedSince, after.MixNotSatisfiedSince)
	assert.Equal(t, int32(1), after.FailedMoves)
	assert.Zero(t, w.Metric(c, "berth_mix_evictions_total", nil))
}
