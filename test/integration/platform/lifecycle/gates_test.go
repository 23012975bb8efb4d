// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

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
