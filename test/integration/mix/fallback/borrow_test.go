// SPDX-License-Identifier: Apache-2.0

package fallback_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

var (
	spotThenOnDemand = builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableOnDemand, 0)
	spotOrWait       = builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableWait, 0)
	onDemandThenSpot = builders.WhenOnDemandUnavailable(v1alpha1.WhenOnDemandUnavailableSpot)
	onDemandOrWait   = builders.WhenOnDemandUnavailable(v1alpha1.WhenOnDemandUnavailableWait)
)

// spotWait lets spot slots borrow after so many seconds.
func spotWait(seconds int32) func(*v1alpha1.CapacityMix) {
	return builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableOnDemand, seconds)
}

// changes is what a case changes in its mix.
type changes = []func(*v1alpha1.CapacityMix)

const (
	pods = 5
	room = 2
)

// Each case puts five pods of one slot type on a side with capacity for exactly two.
func TestPodsBorrowOnlyWithoutCapacityAndIfTheMixAllowsIt(t *testing.T) {
	cases := []struct {
		name  string
		wants string
		mix   changes
		// wantWait is how long the other pods wait before they borrow, forever: they stay.
		wantWait    time.Duration
		wantForever bool
		started     time.Time
	}{
		{name: "spot slots with OnDemand borrow at once", wants: spot, mix: changes{spotThenOnDemand}},
		{name: "spot slots with OnDemand after four seconds borrow then", wants: spot, mix: changes{spotWait(4)}, wantWait: 4 * time.Second},
		{name: "spot slots with Wait never borrow", wants: spot, mix: changes{spotOrWait}, wantForever: true},
		{name: "spot slots may not do what on-demand slots may", wants: spot, mix: changes{spotOrWait, onDemandThenSpot}, wantForever: true},
		{name: "on-demand slots never borrow by default", wants: onDemand, wantForever: true},
		{name: "on-demand slots with Wait never borrow after the wait for spot either", wants: onDemand, mix: changes{spotWait(1), onDemandOrWait}, wantForever: true},
		{name: "on-demand slots with Spot borrow at once", wants: onDemand, mix: changes{onDemandThenSpot}},
		{name: "on-demand slots with Spot do not wait as spot slots do", wants: onDemand, mix: changes{onDemandThenSpot, spotWait(600)}},
	}
	lane := func(i int) testenv.Lane { return testenv.Lane(fmt.Sprintf("case-%d", i)) }
	w := testenv.New(t)
	for i, c := range cases {
		w.AddNodes(lane(i).Node("own", c.wants, fmt.Sprint(room)), lane(i).Node("foreign", other(c.wants), "16"))
		w.Create(builders.CapacityMix(string(lane(i)), allOf(c.wants), 0, c.mix...))
	}
	seen := w.RecordAll()
	for i := range cases {
		cases[i].started = time.Now()
		w.Create(builders.Deployment(string(lane(i)), pods, oneCPU, lane(i).Pods))
	}
	for i, c := range cases {
		if c.wantForever {
			w.WaitUnschedulable(string(lane(i)), pods-room)
		} else {
			seen.WaitBound(string(lane(i)), pods, c.wantWait+testenv.SettleTimeout)
		}
	}
	// Long enough for what must not happen to happen; the watch would have seen it.
	w.Always(stays, "no pod that has to wait is bound", func() (bool, string) {
		for i, c := range cases {
			if n := len(seen.Bound(string(lane(i)))); c.wantForever && n != room {
				return false, fmt.Sprintf("%s: %d pods are bound", c.name, n)
			}
		}
		return true, ""
	})
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			app, onOwn := string(lane(i)), 0
			for name, s := range seen.Bound(app) {
				created := seen.Created(app)[name].At
				if s.Pod.Spec.NodeName == lane(i).Name("own") {
					onOwn++
					assert.LessOrEqual(t, s.At.Sub(created), borrowBound, "%s fits on its type and waits for nothing", name)
					continue
				}
				assert.False(t, c.wantForever, "%s borrowed", name)
				assert.GreaterOrEqual(t, s.At.Sub(c.started), c.wantWait, "%s borrowed before the wait was over", name)
				assert.LessOrEqual(t, s.At.Sub(created), c.wantWait+borrowBound, "%s borrowed too late", name)
			}
			assert.Equal(t, room, onOwn, "pods on the only node of their type, which has room for %d", room)
		})
	}
}

// What disturbs the scheduler meanwhile must not start the wait again, and a wait
// that capacity ends early is none any more.
func TestSpotWaitCountsFromItsBeginning(t *testing.T) {
	const wait = 10 * time.Second
	w := testenv.New(t, node("on-demand-0", onDemand, "16"))
	seen := w.RecordAll()
	w.Create(builders.CapacityMix("web", 100, 0, spotWait(10)))
	start := time.Now()
	w.Create(builders.Deployment("web", 2, oneCPU))
	w.WaitUnschedulable("web", 2)
	for i := range 3 { // nodes come that are too small, and wake the pods without success
		w.AddNodes(node(fmt.Sprintf("small-%d", i), spot, "500m"))
	}
	require.Zero(t, len(seen.Bound("web")), "no spot node has free capacity")
	require.Less(t, time.Since(start), wait, "the small nodes came before the wait was over")
	w.AddNodes(node("spot-0", spot, "1"))
	for _, s := range seen.WaitBound("web", 1, wakeBound) {
		require.Equal(t, "spot-0", s.Pod.Spec.NodeName, "the room that came in time")
	}
	for name, s := range seen.WaitBound("web", 2, wait+borrowBound) {
		if s.Pod.Spec.NodeName == "spot-0" {
			continue
		}
		assert.Equal(t, "on-demand-0", s.Pod.Spec.NodeName)
		assert.GreaterOrEqual(t, s.At.Sub(start), wait)
		assert.LessOrEqual(t, s.At.Sub(seen.Created("web")[name].At), wait+borrowBound)
	}
}

func TestOnlyABorrowedPodReportsThatItBorrowed(t *testing.T) {
	types := []string{spot, onDemand}
	w := testenv.New(t)
	seen := w.RecordAll()
	for _, wants := range types {
		l := testenv.Lane(wants)
		w.AddNodes(l.Node("own", wants, fmt.Sprint(room)), l.Node("foreign", other(wants), "16"))
		w.Create(builders.CapacityMix(wants, allOf(wants), 0, spotThenOnDemand, onDemandThenSpot), builders.Deployment(wants, pods, oneCPU, l.Pods))
	}
	for _, wants := range types {
		w.Run(wants+" slots", func(t *testing.T, w *testenv.World) {
			bound := seen.WaitBound(wants, pods, testenv.SettleTimeout)
			slots, borrowed := map[int]bool{}, 0
			for _, s := range bound {
				slot, ok := governing.ClaimedSlot(s.Pod)
				require.True(t, ok, "%s has a slot in the event that shows its node", s.Pod.Name)
				slots[slot] = true
				assert.Equal(t, wants, s.Pod.Annotations[v1alpha1.CapacityTypeAnnotation], "the type of the slot, not of the node")
				assert.Equal(t, governing.SourceCapacityMix+wants, s.Pod.Annotations[v1alpha1.MixAnnotation])
				assert.Equal(t, fmt.Sprintf("-%d", slot), s.Pod.Annotations[v1alpha1.PodDeletionCostAnnotation])
				if s.Pod.Spec.NodeName == testenv.Lane(wants).Name("foreign") {
					borrowed++
					requireBorrowedEvent(w, s.Pod, slot, wants)
				}
			}
			for slot := range pods {
				assert.True(t, slots[slot], "slot %d is held", slot)
			}
			assert.Equal(t, pods-room, borrowed, "borrowed pods")
			// The events of the borrowed pods are there, so those of the others would be too.
			for _, s := range bound {
				if s.Pod.Spec.NodeName == testenv.Lane(wants).Name("own") {
					assert.Empty(t, w.BerthEvents(s.Pod.Name), "events of Berth on a pod that runs on its type")
				}
			}
		})
	}
}

func requireBorrowedEvent(w *testenv.World, pod *corev1.Pod, slot int, wants string) {
	w.T.Helper()
	w.Reaches("events of the borrowed pod", 1, func() int { return len(w.BerthEvents(pod.Name)) })
	events := w.BerthEvents(pod.Name)
	require.Len(w.T, events, 1)
	e := events[0]
	assert.Equal(w.T, v1alpha1.EventReasonBorrowed, e.Reason)
	assert.Equal(w.T, corev1.EventTypeNormal, e.Type)
	assert.Equal(w.T, pod.UID, e.InvolvedObject.UID)
	assert.Equal(w.T, fmt.Sprintf("Scheduled on %s node %s: no %s capacity for slot %d", other(wants), pod.Spec.NodeName, wants, slot), e.Message)
}
