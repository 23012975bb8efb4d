// SPDX-License-Identifier: Apache-2.0

package preemption_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

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
