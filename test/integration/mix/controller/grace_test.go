// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

// grace is how long nothing may be moved.
var grace = testenv.Length(10*time.Second, time.Minute)

// patient has a lease that outlasts a short outage, however long a busy machine
// takes to start the API server again, and a grace.
func patient(c *controller.Configuration) {
	c.LeaderElection = controller.Default().LeaderElection
	c.LeaderElection.LeaseDurationSeconds = 60
	c.LeaderElection.RenewDeadlineSeconds = 50
	c.Mix.Rebalance.StartupGraceSeconds = int32(grace.Seconds())
}

func TestNoMovesInTheGraceAfterAStartOrAnOutage(t *testing.T) {
	outage := testenv.Length(6*time.Second, 9*time.Second)
	w := stray(t, time.Second)
	c := w.Controller(testenv.Impatient, patient)
	w.WaitBlocked("web", "StartupGrace", "nothing is moved until")
	leads := w.AcquiredAt("berth-controller")
	w.Within(grace+testenv.SettleTimeout, "a pod is evicted", func() (bool, string) { return len(w.Evictions()) > 0, "" })
	first := w.Evictions()[0].At
	assert.GreaterOrEqual(t, first.Sub(leads), grace, "the first eviction after the controller came to lead")

	require.NoError(t, w.Cluster.StopComponent(cluster.APIServer))
	down := time.Now()
	before := len(w.Evictions()) // the audit log is a file
	require.Less(t, before, away, "there is something left to do")
	w.Always(outage, "the controller lives on", func() (bool, string) { return testenv.Runs(c) })
	back := time.Now()
	require.NoError(t, w.Cluster.StartComponent(w.Ctx, cluster.APIServer))
	w.WaitRepaired("web", seventy, replicas, grace+2*testenv.SettleTimeout)
	after := w.Evictions()[before:]
	require.NotEmpty(t, after)
	for _, e := range after {
		require.True(t, e.At.After(down))
		assert.GreaterOrEqual(t, e.At.Sub(back), grace, "%s after the API server was started again: %s", e.At.Sub(back), e)
	}
	assertEvicted(w, away+1) // what was on its way when the API server went may have to be moved again
	runs, log := testenv.Runs(c)
	require.True(t, runs, "the controller ended: %s", log)
	testenv.End(c, false) // which gives up the lease for the next test
	t.Logf("the first eviction came %s after the API server was started again", after[0].At.Sub(back))
}
