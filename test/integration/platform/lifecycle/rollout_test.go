// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// With the lease that is shipped, a standby tries every 2 to 4.4 s to acquire a lease that was given up, and then binds what has arrived. One
// that was not given up is valid for 15 s.
const handover = 10 * time.Second

// Pods arrive while the replicas of the scheduler are replaced one after the other.
func TestARolloutOfTheSchedulerDelaysPodsByAFewSeconds(t *testing.T) {
	w := testenv.New(t, wide()...)
	p := newPairOf(w, cluster.LeaderElection{}, func(o cluster.ProgramOptions) cluster.ProgramOptions { return o })
	const rollouts, pods = 3, 20
	m := split.New(70, 7)
	var longest time.Duration
	for i := range rollouts {
		app := fmt.Sprintf("web-%d", i)
		w.Create(builders.CapacityMix(app, m.SpotPercent, m.MinOnDemand))
		d := builders.Deployment(app, 0)
		w.Create(d)
		recording := w.Record(app)
		p.leader.Terminate()
		tick := time.NewTicker(100 * time.Millisecond)
		for n := range pods {
			w.Scale(d, int32(n+1))
			<-tick.C
		}
		tick.Stop()
		<-p.leader.Done()
		p.succeed()
		bound := recording.WaitBound(app, pods, testenv.SettleTimeout)
		for name, created := range recording.Created(app) {
			longest = max(longest, bound[name].At.Sub(created.At))
		}
		w.RequireExact(app, m, pods)
	}
	t.Logf("the longest delay of a pod was %s", longest)
	assert.Less(t, longest, handover, "the leader gives its lease up when it ends")
}
