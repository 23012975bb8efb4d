// SPDX-License-Identifier: Apache-2.0

// Package reservations_test proves, on a real control plane, that Reservations hold capacity for the pods that they select, and
// release it.
package reservations_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{Core: []string{
		"TestCapacityIsHeldForThePodsThatAReservationSelects",
		"TestADeletedReservationHoldsNothing",
		"TestAMixAndAReservationBothHold",
		"TestAGroupIsBoundTogetherOrNotAtAll",
	}, NoScheduler: true}))
}

// start starts the second scheduler as it is shipped.
func start(w *testenv.World) *cluster.Scheduler {
	w.T.Helper()
	return w.RunScheduler(w.Variant(testenv.SecondScheduler))
}

// two are nodes of 4 CPUs.
func two() []cluster.NodeSpec {
	return cluster.Nodes("", 2, func(n *cluster.NodeSpec) { n.CPU, n.Memory = "4", "16Gi" })
}

// waitFor waits until a Reservation has so much that is held and used, and its condition a reason.
func waitFor(w *testenv.World, name, reason string, held, used int32) *v1alpha1.Reservation {
	w.T.Helper()
	what := fmt.Sprintf("%s, %d held, %d used", reason, held, used)
	return testenv.WaitFor(w, name, what, func(r *v1alpha1.Reservation) bool {
		c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReserved)
		return c != nil && c.Reason == reason && r.Status.HeldCount == held && r.Status.UsedCount == used
	})
}

// waitBoundOf waits until so many pods of an app are bound, and requires that no more are.
func waitBoundOf(w *testenv.World, app string, n int) {
	w.T.Helper()
	bound := func() int { return len(testenv.Where(w.Live(app), testenv.Bound)) }
	w.Eventually(fmt.Sprintf("%d pods of %s are bound", n, app), func() (bool, string) { return bound() == n, fmt.Sprint(bound()) })
	w.Always(testenv.Short, "no more are", func() (bool, string) { return bound() == n, fmt.Sprint(bound()) })
}

func replicas(n int32) func(*v1alpha1.ReservationSpec) {
	return func(s *v1alpha1.ReservationSpec) { s.Replicas = &n }
}

func expires(seconds int32) func(*v1alpha1.ReservationSpec) {
	return func(s *v1alpha1.ReservationSpec) { s.ExpirationSeconds = &seconds }
}

func repeatedly(s *v1alpha1.ReservationSpec) { s.AllocateOnce = new(false) }

func message(t *testing.T, r *v1alpha1.Reservation) string {
	t.Helper()
	c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReserved)
	require.NotNil(t, c)
	return c.Message
}
