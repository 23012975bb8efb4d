// SPDX-License-Identifier: Apache-2.0

package fallback_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// Each case has four pods waiting for capacity on one type while the other has it.
func TestAChangeOfTheMixReleasesTheWaitingPodsWithinTwoSeconds(t *testing.T) {
	const waiting = 4
	cases := []struct {
		name  string
		wants string // the type that they wait for
		mix   changes
		// annotated: the mix is on the Deployment, not a CapacityMix.
		annotated bool
		change    func(w *testenv.World, m *v1alpha1.CapacityMix, d *appsv1.Deployment)
		wantBound int
		// wantWants is the type of the slots of those that are bound, empty for pods without a slot.
		wantWants string
	}{
		{
			name: "a higher spotPercent releases the slots that become spot, and no others", wants: onDemand,
			change: patchMix(func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = 50 }), wantBound: 2, wantWants: spot,
		},
		{
			name: "a lower minOnDemand does too", wants: onDemand, mix: changes{func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent, m.Spec.MinOnDemand = 100, 4 }},
			change: patchMix(func(m *v1alpha1.CapacityMix) { m.Spec.MinOnDemand = 1 }), wantBound: 3, wantWants: spot,
		},
		{
			name: "a lower spotPercent releases slots that waited for spot", wants: spot, mix: changes{spotOrWait},
			change: patchMix(func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = 0 }), wantBound: 4, wantWants: onDemand,
		},
		{
			name: "a deleted mix releases all", wants: onDemand,
			change: func(w *testenv.World, m *v1alpha1.CapacityMix, _ *appsv1.Deployment) { w.Delete(m) }, wantBound: 4,
		},
		{
			name: "a mix that selects others from now on releases all", wants: onDemand,
			change: patchMix(func(m *v1alpha1.CapacityMix) { m.Spec.Selector.MatchLabels = builders.Labels("others") }), wantBound: 4,
		},
		{
			name: "whenOnDemandUnavailable Spot makes them borrow", wants: onDemand,
			change: patchMix(onDemandThenSpot), wantBound: 4, wantWants: onDemand,
		},
		{
			name: "whenSpotUnavailable OnDemand makes them borrow", wants: spot, mix: changes{spotOrWait},
			change: patchMix(spotThenOnDemand), wantBound: 4, wantWants: spot,
		},
		{
			name: "no spotWaitSeconds any more makes them borrow", wants: spot, mix: changes{spotWait(600)},
			change: patchMix(spotWait(0)), wantBound: 4, wantWants: spot,
		},
		{
			name: "another annotation on the Deployment releases the slots that become spot", wants: onDemand, annotated: true,
			change: func(w *testenv.World, _ *v1alpha1.CapacityMix, d *appsv1.Deployment) {
				testenv.Patch(w, d, func(d *appsv1.Deployment) { maps.Copy(d.Annotations, builders.MixAnnotations(50, 0)) })
			}, wantBound: 2, wantWants: spot,
		},
	}
	lane := func(i int) testenv.Lane { return testenv.Lane(fmt.Sprintf("case-%d", i)) }
	w := testenv.New(t)
	mixes, deployments := make([]*v1alpha1.CapacityMix, len(cases)), make([]*appsv1.Deployment, len(cases))
	for i, c := range cases {
		w.AddNodes(lane(i).Node("own", c.wants, "500m"), lane(i).Node("other", other(c.wants), "16"))
		mixes[i] = builders.CapacityMix(string(lane(i)), allOf(c.wants), 0, c.mix...)
		deployments[i] = builders.Deployment(string(lane(i)), waiting, oneCPU, lane(i).Pods)
		if c.annotated {
			deployments[i].Annotations = builders.MixAnnotations(int(allOf(c.wants)), 0)
		} else {
			w.Create(mixes[i])
		}
		w.Create(deployments[i])
	}
	for i := range cases {
		w.WaitUnschedulable(string(lane(i)), waiting)
	}
	seen := w.RecordAll()
	for i, c := range cases {
		w.Run(c.name, func(t *testing.T, w *testenv.World) {
			app := string(lane(i))
			require.Zero(t, len(seen.Bound(app)))
			start := time.Now()
			c.change(w, mixes[i], deployments[i])
			w.Within(wakeBound, "they are released", func() (bool, string) {
				n := len(seen.Bound(app))
				return n >= c.wantBound, fmt.Sprintf("%d bound", n)
			})
			for _, s := range seen.Bound(app) {
				assert.Equal(t, lane(i).Name("other"), s.Pod.Spec.NodeName)
				assert.Equal(t, c.wantWants, s.Pod.Annotations[v1alpha1.CapacityTypeAnnotation])
				t.Logf("bound after %s", s.At.Sub(start).Round(time.Millisecond))
			}
		})
	}
	w.Always(stays, "the slots that have still no room wait", func() (bool, string) {
		for i, c := range cases {
			if n := len(seen.Bound(string(lane(i)))); n != c.wantBound {
				return false, fmt.Sprintf("%s: %d bound", c.name, n)
			}
		}
		return true, ""
	})
}

func patchMix(change func(*v1alpha1.CapacityMix)) func(*testenv.World, *v1alpha1.CapacityMix, *appsv1.Deployment) {
	return func(w *testenv.World, m *v1alpha1.CapacityMix, _ *appsv1.Deployment) { testenv.Patch(w, m, change) }
}

// spotWaitSeconds counts "from the moment no spot node had capacity": what the pod
// waited for on-demand before is not part of it.
func TestAPodWhoseSlotBecomesSpotWaitsForSpotFromThen(t *testing.T) {
	const wait = 4 * time.Second
	w := testenv.New(t, node("spot-0", spot, "500m"), node("small", onDemand, "500m"))
	seen := w.RecordAll()
	m := builders.CapacityMix("web", 0, 0, spotWait(4))
	w.Create(m, builders.Deployment("web", 1, oneCPU))
	w.WaitUnschedulable("web", 1)
	w.Always(wait+time.Second, "the pod waits for on-demand", func() (bool, string) { return len(seen.Bound("web")) == 0, "bound" })

	start := time.Now()
	testenv.Patch(w, m, func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = 100 })
	w.AddNodes(node("on-demand-0", onDemand, "4"))
	for _, s := range seen.WaitBound("web", 1, wait+borrowBound) {
		assert.Equal(t, "on-demand-0", s.Pod.Spec.NodeName)
		assert.GreaterOrEqual(t, s.At.Sub(start), wait, "borrowed before it had waited for spot")
	}
}
