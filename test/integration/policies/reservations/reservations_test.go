// SPDX-License-Identifier: Apache-2.0

package reservations_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// Capacity is held while other pods wait for it, and the pods come to it that it is held for, however full the nodes are.
func TestCapacityIsHeldForThePodsThatAReservationSelects(t *testing.T) {
	w := testenv.New(t, two()...)
	s := start(w)
	w.Create(builders.Reservation("later", "web", "2", replicas(2)))
	r := waitFor(w, "later", v1alpha1.ReasonReserved, 2, 0)
	metrics := func(reason, state string) func() int {
		return func() int {
			return w.Metric(s, "berth_scheduler_reservations", map[string]string{"reason": reason}) +
				10*w.Metric(s, "berth_scheduler_reservation_replicas", map[string]string{"state": state})
		}
	}
	w.Reaches("one Reservation is reported as Reserved, and two replicas as held", 21, metrics(v1alpha1.ReasonReserved, "held"))
	assert.Equal(t, r.CreationTimestamp.Add(time.Hour), r.Status.ExpirationTime.Time)
	w.Create(builders.Deployment("other", 6, builders.CPU("1")))
	waitBoundOf(w, "other", 4)
	pending := testenv.Where(w.Live("other"), func(p *corev1.Pod) bool { return !testenv.Bound(p) })
	assert.Contains(t, testenv.Unschedulable(&pending[0]), "hold capacity for other pods by Reservations: cpu")

	w.Create(builders.Deployment("web", 3, builders.CPU("2")))
	waitBoundOf(w, "web", 2)
	for _, p := range testenv.Where(w.Live("web"), testenv.Bound) {
		assert.Equal(t, "later", p.Annotations[v1alpha1.ReservationAnnotation])
	}
	r = waitFor(w, "later", v1alpha1.ReasonUsed, 0, 2)
	w.Reaches("one is reported as Used, and no replica", 1, metrics(v1alpha1.ReasonUsed, "held"))
	for _, h := range r.Status.Holds {
		p := testenv.Read(w, h.PodName, &corev1.Pod{})
		assert.Equal(t, []string{h.NodeName, h.PodUID}, []string{p.Spec.NodeName, string(p.UID)})
	}
}

// Events and records of a binding have the Reservation whose capacity the pod uses, whichever attempts a policy records.
func TestADecisionHasTheReservationOfItsPod(t *testing.T) {
	w := testenv.New(t, two()...)
	start(w)
	decided := func(pod string, outcome v1alpha1.AttemptOutcome) *v1alpha1.SchedulingAttempt {
		what := "the last attempt is " + string(outcome)
		return &testenv.WaitFor(w, pod, what, func(d *v1alpha1.SchedulingDecision) bool { return d.Attempt.Outcome == outcome }).Attempt
	}
	for app, record := range map[string]v1alpha1.RecordMode{"web": v1alpha1.RecordAlways, "late": v1alpha1.RecordOnFailure} {
		w.Create(builders.SchedulingPolicy(app, func(s *v1alpha1.SchedulingPolicySpec) {
			s.PodSelector.MatchLabels = builders.Labels(app)
			s.Decisions = &v1alpha1.DecisionRules{Record: record, Events: record == v1alpha1.RecordAlways, Objects: true}
		}), builders.Reservation("for-"+app, app, "2"))
		waitFor(w, "for-"+app, v1alpha1.ReasonReserved, 1, 0)
	}
	w.Create(builders.Pod("web", "web-0", builders.CPU("2")))
	node := w.WaitBound("web", 1)[0].Spec.NodeName
	a := decided("web-0", v1alpha1.AttemptBound)
	assert.Equal(t, "for-web", a.ReservationName)
	w.WaitEvent("web-0", "it is bound", func(e *corev1.Event) bool {
		return e.Reason == v1alpha1.EventReasonBindSuccess && e.Message == "Decision "+a.ID+": bound to node "+node+" with Reservation for-web"
	})
	w.Create(builders.Pod("web", "web-1", builders.CPU("1"))) // nothing is held for it any more
	assert.Empty(t, decided("web-1", v1alpha1.AttemptBound).ReservationName)

	allow := refuseBinding(w, "late-0")
	w.Create(builders.Pod("late", "late-0", builders.CPU("1")))
	assert.Equal(t, "for-late", decided("late-0", v1alpha1.AttemptBindFailed).ReservationName)
	allow()
	w.WaitBound("late", 1)
}

// What is not used by its expiration is free again, and pods that wait for it come to it.
func TestAReservationExpires(t *testing.T) {
	w := testenv.New(t, two()...)
	start(w)
	w.Create(builders.Reservation("short", "web", "3", expires(8)))
	waitFor(w, "short", v1alpha1.ReasonReserved, 1, 0)
	w.Create(builders.Deployment("other", 8, builders.CPU("1")))
	waitBoundOf(w, "other", 5)
	w.WaitBound("other", 8)
	waitFor(w, "short", v1alpha1.ReasonExpired, 0, 0)
}

func TestADeletedReservationHoldsNothing(t *testing.T) {
	w := testenv.New(t, two()...)
	start(w)
	r := builders.Reservation("gone", "web", "4")
	w.Create(r)
	waitFor(w, "gone", v1alpha1.ReasonReserved, 1, 0)
	w.Create(builders.Deployment("other", 8, builders.CPU("1")))
	waitBoundOf(w, "other", 4)
	w.Delete(r)
	w.WaitBound("other", 8)
}

// A Reservation that no node has the capacity for holds nothing, reports why, and is held as soon as there is such a node.
func TestAReservationWaitsForCapacity(t *testing.T) {
	w := testenv.New(t, two()...)
	start(w)
	w.Create(builders.Reservation("large", "web", "6"))
	waitFor(w, "large", v1alpha1.ReasonUnschedulable, 0, 0)
	r := testenv.WaitFor(w, "large", "the scheduler's reason", func(r *v1alpha1.Reservation) bool {
		return message(t, r) == "capacity for 0 of 1 replicas is held or used: 0/2 nodes are available: 2 Insufficient cpu."
	})
	require.Empty(t, r.Status.Holds)
	w.WaitEvent("large", "Unschedulable", func(e *corev1.Event) bool { return e.Reason == v1alpha1.ReasonUnschedulable })
	w.AddNodes(cluster.NodeSpec{Name: "big", CPU: "8", Memory: "16Gi"})
	r = waitFor(w, "large", v1alpha1.ReasonReserved, 1, 0)
	assert.Equal(t, "big", r.Status.Holds[0].NodeName)
}

// With allocateOnce false, what a pod used is held for the next one.
func TestCapacityIsHeldAgainAfterAPod(t *testing.T) {
	w := testenv.New(t, two()...)
	start(w)
	w.Create(builders.Reservation("often", "web", "4", repeatedly))
	node := waitFor(w, "often", v1alpha1.ReasonReserved, 1, 0).Status.Holds[0].NodeName
	for range 3 {
		p := builders.Pod("web", "web-0", builders.CPU("4"))
		w.Create(p)
		w.WaitBound("web", 1)
		waitFor(w, "often", v1alpha1.ReasonReserved, 0, 1)
		assert.Equal(t, node, testenv.Read(w, "web-0", &corev1.Pod{}).Spec.NodeName)
		w.Delete(p)
		w.WaitDeleted(p)
		waitFor(w, "often", v1alpha1.ReasonReserved, 1, 0)
	}
}

// A scheduler that is killed has written what it holds, and which pods use it is on the pods.
func TestAKilledSchedulerLosesNothingThatIsHeld(t *testing.T) {
	w := testenv.New(t, two()...)
	o := w.Variant(testenv.SecondScheduler)
	o.LeaderElection = &cluster.LeaderElection{Enabled: new(false)}
	s := w.StartScheduler(o)
	w.Create(builders.Reservation("kept", "web", "2", replicas(3)))
	waitFor(w, "kept", v1alpha1.ReasonReserved, 3, 0)
	w.Create(builders.Pod("web", "web-0", builders.CPU("2")))
	w.WaitBound("web", 1)
	testenv.Kill(s) // the status may not have it yet that a pod uses capacity
	w.Create(builders.Deployment("other", 4, builders.CPU("1")))
	s = w.StartScheduler(o)
	t.Cleanup(func() { testenv.Kill(s) })
	waitFor(w, "kept", v1alpha1.ReasonReserved, 2, 1)
	waitBoundOf(w, "other", 2)
	w.Create(builders.Pod("web", "web-1", builders.CPU("2")), builders.Pod("web", "web-2", builders.CPU("2")))
	waitBoundOf(w, "web", 3)
}

// A finished Reservation is deleted after its time to live.
func TestAFinishedReservationIsDeleted(t *testing.T) {
	w := testenv.New(t, two()...)
	start(w)
	r := builders.Reservation("done", "web", "1", expires(1), func(s *v1alpha1.ReservationSpec) { s.TTLSecondsAfterFinished = new(int32(0)) })
	w.Create(r)
	w.WaitDeleted(r)
}

// A node that goes takes what is held there with it: another one holds it then.
func TestCapacityIsHeldElsewhereWhenItsNodeGoes(t *testing.T) {
	w := testenv.New(t, two()...)
	start(w)
	w.Create(builders.Reservation("moves", "web", "3"))
	first := waitFor(w, "moves", v1alpha1.ReasonReserved, 1, 0).Status.Holds[0].NodeName
	node := &corev1.Node{}
	node.Name = first
	require.NoError(t, w.Client.Delete(w.Ctx, node))
	r := testenv.WaitFor(w, "moves", "another node", func(r *v1alpha1.Reservation) bool {
		return len(r.Status.Holds) == 1 && r.Status.Holds[0].NodeName != first
	})
	assert.Equal(t, int32(1), r.Status.HeldCount)
}

// The mix of a workload stays exact, and its pods come to what is held for them on the right type.
func TestAMixAndAReservationBothHold(t *testing.T) {
	small := func(n *cluster.NodeSpec) { n.CPU, n.Memory = "4", "16Gi" }
	w := testenv.New(t, append(cluster.Nodes("spot", 2, small), cluster.Nodes("on-demand", 2, small)...)...)
	start(w)
	w.Create(builders.CapacityMix("web", 50, 0), builders.Reservation("room", "web", "2", replicas(2), func(s *v1alpha1.ReservationSpec) {
		s.NodeSelector = map[string]string{cluster.CapacityTypeLabel: "spot"}
	}))
	waitFor(w, "room", v1alpha1.ReasonReserved, 2, 0)
	other := builders.Deployment("other", 16, builders.CPU("1"))
	w.Create(other)
	waitBoundOf(w, "other", 12)
	w.Create(builders.Deployment("web", 2, builders.CPU("2")))
	waitBoundOf(w, "web", 1) // its spot slot; the on-demand nodes are full
	waitFor(w, "room", v1alpha1.ReasonReserved, 1, 1)
	w.Scale(other, 0)
	w.RequireExact("web", split.New(50, 0), 2)
}
