// SPDX-License-Identifier: Apache-2.0

// Package preemption_test proves, on a real control plane, that pods with a mix
// preempt for their own capacity type only, as a last resort, and keep their
// slot while they wait for their victims.
package preemption_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

const (
	spot     = v1alpha1.CapacityTypeSpot
	onDemand = v1alpha1.CapacityTypeOnDemand

	// stays is how long something that must not happen is watched for.
	stays = 3 * time.Second
)

var (
	// oneCPU makes every pod take a whole CPU, so that nodes are filled exactly.
	oneCPU = builders.CPU("1")

	spotOrWait       = builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableWait, 0)
	spotThenOnDemand = builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableOnDemand, 0)
	onDemandOrWait   = builders.WhenOnDemandUnavailable(v1alpha1.WhenOnDemandUnavailableWait)
	onDemandThenSpot = builders.WhenOnDemandUnavailable(v1alpha1.WhenOnDemandUnavailableSpot)
)

// highPriority makes a priority class for a test and returns its name.
func highPriority(w *testenv.World) string {
	w.T.Helper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}, Value: 1000}
	w.CreateForTest(class)
	return class.Name
}

// Each case has one spot and one on-demand node of two CPUs, each full of pods
// of low priority or free.
func TestPreemptionStaysOnTheSlotsTypeAndComesAfterBorrowing(t *testing.T) {
	type full struct{ spot, onDemand bool }
	type mix = []func(*v1alpha1.CapacityMix)
	cases := []struct {
		name    string
		percent int32
		mix     mix
		full    full
		pods    int
		// what is wanted, per node
		wantVictimsSpot, wantVictimsOnDemand int
		wantOnSpot, wantOnOnDemand           int
		wantWait                             time.Duration
	}{
		{name: "spot slots preempt on spot", percent: 100, mix: mix{spotOrWait}, full: full{true, true}, pods: 2, wantVictimsSpot: 2, wantOnSpot: 2},
		{name: "on-demand slots preempt on on-demand", percent: 0, mix: mix{onDemandOrWait}, full: full{true, true}, pods: 2, wantVictimsOnDemand: 2, wantOnOnDemand: 2},
		{
			name: "slots of both types preempt on each", percent: 50, mix: mix{spotOrWait}, full: full{true, true}, pods: 2,
			wantVictimsSpot: 1, wantVictimsOnDemand: 1, wantOnSpot: 1, wantOnOnDemand: 1,
		},
		{
			name: "spot slots that may borrow but find both types full preempt on spot", percent: 100, mix: mix{spotThenOnDemand}, full: full{true, true}, pods: 2,
			wantVictimsSpot: 2, wantOnSpot: 2,
		},
		{
			name: "on-demand slots that may borrow but find both types full preempt on on-demand", percent: 0, mix: mix{onDemandThenSpot}, full: full{true, true}, pods: 2,
			wantVictimsOnDemand: 2, wantOnOnDemand: 2,
		},
		{name: "spot slots borrow free on-demand room and preempt nothing", percent: 100, mix: mix{spotThenOnDemand}, full: full{spot: true}, pods: 2, wantOnOnDemand: 2},
		{name: "on-demand slots borrow free spot room and preempt nothing", percent: 0, mix: mix{onDemandThenSpot}, full: full{onDemand: true}, pods: 2, wantOnSpot: 2},
		{
			name: "spot slots preempt nothing while they wait to borrow", percent: 100, mix: mix{builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableOnDemand, 4)},
			full: full{spot: true}, pods: 2, wantOnOnDemand: 2, wantWait: 4 * time.Second,
		},
		{
			name: "spot slots that may not borrow preempt although on-demand has room", percent: 100, mix: mix{spotOrWait}, full: full{spot: true}, pods: 2,
			wantVictimsSpot: 2, wantOnSpot: 2,
		},
		{
			name: "on-demand slots that may not borrow preempt although spot has room", percent: 0, mix: mix{onDemandOrWait}, full: full{onDemand: true}, pods: 2,
			wantVictimsOnDemand: 2, wantOnOnDemand: 2,
		},
	}
	lane := func(i int) testenv.Lane { return testenv.Lane(fmt.Sprintf("case-%d", i)) }
	w := testenv.New(t)
	high := highPriority(w)
	for i, c := range cases {
		w.AddNodes(lane(i).Node(spot, spot, "2"), lane(i).Node(onDemand, onDemand, "2"))
		for node, full := range map[string]bool{spot: c.full.spot, onDemand: c.full.onDemand} {
			if full {
				w.Fill(lane(i).Name(node), 2, builders.TerminatesFor(2*time.Second))
			}
		}
		w.Create(builders.CapacityMix(string(lane(i)), c.percent, 0, c.mix...))
	}
	seen := w.RecordAll()
	started := make([]time.Time, len(cases))
	for i, c := range cases {
		started[i] = time.Now()
		w.Create(builders.Deployment(string(lane(i)), int32(c.pods), oneCPU, lane(i).Pods, builders.PriorityClass(high)))
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			app := string(lane(i))
			bound := seen.WaitBound(app, c.pods, testenv.SettleTimeout)
			on := map[string]int{}
			for name, s := range bound {
				on[s.Pod.Spec.NodeName]++
				assert.GreaterOrEqual(t, s.At.Sub(started[i]), c.wantWait, "%s borrowed before the wait was over", name)
			}
			assert.Equal(t, c.wantOnSpot, on[lane(i).Name(spot)], "pods on spot")
			assert.Equal(t, c.wantOnOnDemand, on[lane(i).Name(onDemand)], "pods on on-demand")
			assert.Equal(t, c.wantVictimsSpot, len(seen.Deleting("fill-"+lane(i).Name(spot))), "victims on spot")
			assert.Equal(t, c.wantVictimsOnDemand, len(seen.Deleting("fill-"+lane(i).Name(onDemand))), "victims on on-demand")
			assert.Equal(t, c.wantVictimsSpot+c.wantVictimsOnDemand, len(seen.Nominated(app)), "nominated pods")
			for name, s := range seen.Nominated(app) {
				assert.Equal(t, s.Pod.Status.NominatedNodeName, bound[name].Pod.Spec.NodeName, "%s runs where it was nominated", name)
			}
		})
	}
}

// victimsTerminateFor is how long a nominated pod has to wait.
const victimsTerminateFor = 10 * time.Second

func TestASiblingBurstDoesNotTakeTheSlotOfANominatedPod(t *testing.T) {
	w := testenv.New(t, cluster.NodeSpec{Name: "on-demand-0", CapacityType: onDemand, CPU: "1"}, cluster.NodeSpec{Name: "spot-0", CapacityType: spot})
	high := highPriority(w)
	w.Fill("on-demand-0", 1, builders.TerminatesFor(victimsTerminateFor))
	seen := w.RecordAll()
	w.Create(builders.CapacityMix("web", 50, 0, spotOrWait, onDemandOrWait)) // slots 1, 3, 5 are spot
	web := builders.Deployment("web", 1, oneCPU, builders.PriorityClass(high))
	w.Create(web)
	nominated := waitNominated(w, seen, "web")
	w.Scale(web, 6)

	// The burst is placed while the victim still terminates.
	spotSiblings := seen.WaitBound("web", 3, victimsTerminateFor)
	for _, s := range spotSiblings {
		slot, _ := governing.ClaimedSlot(s.Pod)
		assert.Contains(t, []int{1, 3, 5}, slot, "slots of the siblings on spot")
		assert.Equal(t, "spot-0", s.Pod.Spec.NodeName)
	}
	require.NotContains(t, slices.Collect(maps.Keys(spotSiblings)), nominated)
	require.Equal(t, 1, len(seen.Deleting("fill-on-demand-0")), "victims")

	bound := seen.WaitBound("web", 4, testenv.SettleTimeout)
	require.Contains(t, slices.Collect(maps.Keys(bound)), nominated, "the room that was made is for the nominated pod, not for its siblings on slots 2 and 4")
	slot, _ := governing.ClaimedSlot(bound[nominated].Pod)
	assert.Equal(t, 0, slot, "the slot of the nominated pod")
	assert.Equal(t, "on-demand-0", bound[nominated].Pod.Spec.NodeName)
	w.StaysSplit(stays, "web", "the other on-demand slots wait", testenv.Split{Spot: 3, OnDemand: 1, Pending: 2})
}

// A pod that waits moves down to a lower slot that is free; one that is promised
// a node of its type does not.
func TestANominatedPodKeepsItsSlotWhenALowerOneBecomesFree(t *testing.T) {
	w := testenv.New(t,
		cluster.NodeSpec{Name: "on-demand-0", CapacityType: onDemand, CPU: "1"},
		cluster.NodeSpec{Name: "on-demand-1", CapacityType: onDemand, CPU: "1"},
		cluster.NodeSpec{Name: "spot-0", CapacityType: spot},
	)
	high := highPriority(w)
	w.Fill("on-demand-1", 1, builders.TerminatesFor(victimsTerminateFor))
	seen := w.RecordAll()
	w.Create(builders.CapacityMix("web", 50, 0, spotOrWait, onDemandOrWait)) // of slots 0, 1, 2 only 1 is spot
	w.Create(builders.Deployment("web", 3, oneCPU, builders.PriorityClass(high)))
	nominated := waitNominated(w, seen, "web")
	first := seen.WaitBound("web", 2, victimsTerminateFor)
	require.NotContains(t, slices.Collect(maps.Keys(first)), nominated)
	for _, s := range first {
		if s.Pod.Spec.NodeName == "spot-0" {
			w.Delete(s.Pod)
		}
	}

	bound := seen.WaitBound("web", 4, testenv.SettleTimeout) // the replacement and the nominated pod
	slot, _ := governing.ClaimedSlot(bound[nominated].Pod)
	assert.Equal(t, 2, slot, "the slot of the nominated pod")
	assert.Equal(t, "on-demand-1", bound[nominated].Pod.Spec.NodeName)
	live := w.WaitBound("web", 3)
	assert.Equal(t, []int{0, 1, 2}, slices.Sorted(maps.Keys(w.Slots(live))))
	assert.Equal(t, 1, w.SplitOf(live).Spot)
}

// waitNominated waits until one pod of an app is nominated, and returns its name.
func waitNominated(w *testenv.World, seen *testenv.Recording, app string) string {
	w.T.Helper()
	w.Reaches("a pod is nominated", 1, func() int { return len(seen.Nominated(app)) })
	nominated := slices.Collect(maps.Keys(seen.Nominated(app)))
	require.Len(w.T, nominated, 1)
	return nominated[0]
}
