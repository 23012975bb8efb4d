// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestTheMixIsExactAfterRepeatedSchedulerKills(t *testing.T) {
	w := testenv.New(t, wide()...)
	s := w.RunScheduler(testenv.SchedulerOptions(testenv.SecondScheduler))
	bursts(w, testenv.Length(5, 10), []int{fewest, 100}, disturbance{
		strike:  func() { testenv.Kill(s) },
		recover: func() { s = w.RunScheduler(testenv.SchedulerOptions(testenv.SecondScheduler)) },
	})
}

func TestTheMixIsExactAfterTheAPIServerIsKilledInABurst(t *testing.T) {
	killTheAPIServer(t)
}

// killTheAPIServer kills it in the middle of a burst, and demands that the
// scheduler lives on and the mix is exact.
//
// All pods are there before the first is scheduled: a ReplicaSet controller that
// does not hear that a pod was created creates another, and then deletes the
// surplus by its own order, pods that are not Ready first, whatever their slots
// are. To repair that is up to Berth's controller, which does not run here.
func killTheAPIServer(t *testing.T, pods ...func(*corev1.PodTemplateSpec)) {
	w := testenv.New(t, wide()...)
	h := w.History()
	var s *cluster.Scheduler
	bursts(w, 1, []int{80}, disturbance{
		pods: pods,
		schedule: func() {
			if s != nil {
				testenv.Kill(s)
			}
			s = w.RunScheduler(testenv.SchedulerOptions(testenv.SecondScheduler))
		},
		strike: func() { require.NoError(t, w.Cluster.StopComponent(cluster.APIServer)) },
		// No one can be requested now; this is what was seen until then.
		count:   func(string) int { return h.Bound() % burst },
		recover: func() { require.NoError(t, w.Cluster.StartComponent(w.Ctx, cluster.APIServer)) },
	})
	runs, log := testenv.Runs(s)
	require.True(t, runs, "the scheduler ended with the API server: %s", log)
}

// What the ReplicaSet controller makes twice, and then deletes by its own order,
// Berth's controller repairs.
func TestTheMixIsExactAfterTheAPIServerIsKilledAmongCreates(t *testing.T) {
	w := testenv.New(t, wide()...)
	w.RunScheduler(testenv.SchedulerOptions(testenv.SecondScheduler))
	h := w.History()
	m := split.New(70, 7)
	w.Create(builders.CapacityMix("burst", m.SpotPercent, m.MinOnDemand), builders.Deployment("burst", burst))
	await(w, h, fewest)
	require.NoError(t, w.Cluster.StopComponent(cluster.APIServer))
	require.NoError(t, w.Cluster.StartComponent(w.Ctx, cluster.APIServer))
	w.Controller(testenv.Impatient) // one that led would have lost its lease, and would be restarted by its kubelet
	// A slot may be left empty below another that is held, of the same type: the next pod takes it.
	inMix := testenv.Split{Count: split.Count{Spot: m.Spot(burst), OnDemand: m.OnDemand(burst)}}
	testenv.Becomes(w, "all are bound, in the mix", inMix, func() testenv.Split { return w.Split("burst") })
	w.WaitSatisfied("burst")
}

var gated = []func(*corev1.PodTemplateSpec){builders.Gated}

func TestGatedPodsAreExactAfterRepeatedSchedulerKills(t *testing.T) {
	w := testenv.New(t, wide()...)
	s := w.RunScheduler(testenv.SchedulerOptions(testenv.SecondScheduler))
	bursts(w, testenv.Length(3, 10), []int{fewest, 100}, disturbance{
		pods:    gated,
		strike:  func() { testenv.Kill(s) },
		recover: func() { s = w.RunScheduler(testenv.SchedulerOptions(testenv.SecondScheduler)) },
	})
}

func TestGatedPodsAreExactAfterTheLeaderIsKilled(t *testing.T) {
	w := testenv.New(t, wide()...)
	p := newPair(w)
	bursts(w, 1, []int{60}, disturbance{
		pods: gated,
		strike: func() {
			p.leader.Kill()
			<-p.leader.Done()
		},
		recover: p.succeed,
	})
}

func TestGatedPodsAreExactAfterTheAPIServerIsKilled(t *testing.T) {
	killTheAPIServer(t, gated...)
}
