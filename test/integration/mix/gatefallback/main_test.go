// SPDX-License-Identifier: Apache-2.0

// Package gatefallback_test is about pods with the scheduling gate of Berth that
// hold a spot slot where spot nodes do not come.
package gatefallback_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/fallback"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true})) }

const (
	replicas = 20
	// spotSlots are those of 20 replicas at 70 %, at least 2 on on-demand.
	spotSlots = 14
)

// start starts Berth's scheduler for a test.
func start(w *testenv.World) *cluster.Scheduler {
	w.T.Helper()
	return w.RunScheduler(testenv.SchedulerOptions(testenv.SecondScheduler))
}

// onDemandAfter lets spot slots fall back after so many seconds.
func onDemandAfter(seconds int32) func(*v1alpha1.CapacityMix) {
	return builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableOnDemand, seconds)
}

// deletions are the pods that the scheduler asked to delete, with the answer.
func deletions(w *testenv.World) []testenv.Request {
	w.T.Helper()
	return w.Audit(func(r testenv.Request) bool {
		return r.User == cluster.BerthSchedulerUser && r.Verb == "delete" && r.Resource == "pods"
	})
}

// fellBack returns the pods that say that they fell back.
func fellBack(pods []corev1.Pod) []corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
		_, ok := fallback.MarkOf(p.Annotations, string(p.UID))
		return !ok
	})
}

// waitOnDemand waits until an app has n Ready pods, all on on-demand, and returns them.
func waitOnDemand(w *testenv.World, app string, n int) []corev1.Pod {
	w.T.Helper()
	var pods []corev1.Pod
	w.Eventually(fmt.Sprintf("%d pods of %s run on on-demand", n, app), func() (bool, string) {
		pods = w.Live(app)
		s := w.SplitOf(pods)
		return s.OnDemand == n && len(pods) == n && !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return !testenv.Ready(&p) }), s.String()
	})
	return pods
}

// breakers returns how many circuit breakers are in a state.
func breakers(w *testenv.World, s *cluster.Scheduler, state fallback.State) int {
	w.T.Helper()
	return w.Metric(s, "berth_scheduler_spot_circuit_breakers", map[string]string{"state": string(state)})
}

// spotUnavailable waits for the event that names the lack of spot nodes.
func spotUnavailable(w *testenv.World, object string) corev1.Event {
	w.T.Helper()
	return w.WaitEvent(object, "SpotUnavailable", func(e *corev1.Event) bool { return e.Reason == v1alpha1.EventReasonSpotUnavailable })
}
