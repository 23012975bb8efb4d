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
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

const (
	closedTaint    = "example.com/closed"
	departingTaint = "karpenter.sh/disrupted"
)

// cause is something that gives capacity to exactly one waiting pod.
type cause struct {
	name string
	// node that gets capacity, of the lane.
	node string
	do   func(w *testenv.World, l testenv.Lane, wants string)
}

func causes() []cause {
	change := func(node string, change func(n *corev1.Node, wants string)) func(*testenv.World, testenv.Lane, string) {
		return func(w *testenv.World, l testenv.Lane, wants string) {
			w.ChangeNode(l.Name(node), func(n *corev1.Node) { change(n, wants) })
		}
	}
	label := func(n *corev1.Node, wants string) { n.Labels[cluster.CapacityTypeLabel] = wants }
	untaint := func(n *corev1.Node, _ string) { n.Spec.Taints = nil }
	return []cause{
		{"a node of the type is added", "added", func(w *testenv.World, l testenv.Lane, wants string) { w.AddNodes(l.Node("added", wants, "1")) }},
		{"a node is relabelled to the type", "relabelled", change("relabelled", label)},
		{"a node of unknown type gets its label", "unknown", change("unknown", label)},
		{"a node of the type is uncordoned", "cordoned", change("cordoned", func(n *corev1.Node, _ string) { n.Spec.Unschedulable = false })},
		{"a taint is removed from a node of the type", "tainted", change("tainted", untaint)},
		{"a departing node of the type is to stay after all", "departing", change("departing", untaint)},
		{"another workload's pod on the type is deleted", "full", func(w *testenv.World, l testenv.Lane, _ string) {
			w.Delete(&w.Live("fill-" + l.Name("full"))[0])
		}},
	}
}

// All pods wait together, so each is tried without success for every cause before its
// own, and the last ones have backed off for long.
func TestAWaitingPodIsPlacedWithinTwoSecondsOf(t *testing.T) {
	w := testenv.New(t)
	seen := w.RecordAll()
	for _, wants := range []string{spot, onDemand} {
		l := testenv.Lane(wants)
		w.AddNodes(
			l.Node("full", wants, "1"), l.Node("cordoned", wants, "1"), l.Node("too-small", wants, "500m"),
			l.Node("tainted", wants, "1", tainted(closedTaint, corev1.TaintEffectNoSchedule)),
			// The taint of a departing node may be a soft one: the key states the fact.
			l.Node("departing", wants, "1", tainted(departingTaint, corev1.TaintEffectPreferNoSchedule)),
			l.Node("relabelled", other(wants), "1"), l.Node("roomy", other(wants), "16"), l.Node("unknown", "", "1"),
		)
		w.Cordon(true, l.Name("cordoned"))
		w.Fill(l.Name("full"), 1)
		w.Create(builders.CapacityMix(wants, allOf(wants), 0, spotOrWait, onDemandOrWait),
			builders.Deployment(wants, int32(len(causes())), oneCPU, l.Pods))
		w.WaitUnschedulable(wants, len(causes()))
		failInVain(w, l, wants, 4)
	}
	for _, wants := range []string{spot, onDemand} {
		for i, c := range causes() {
			w.Run(c.name+", for "+wants+" slots", func(t *testing.T, w *testenv.World) {
				before := seen.Bound(wants)
				require.Equal(t, i, len(before), "pods placed by the causes before")
				settle(w) // so that no attempt of the cause before finds the room by chance
				start := time.Now()
				c.do(w, testenv.Lane(wants), wants)
				w.UpTo(wakeBound).Reaches("one more pod is bound", i+1, func() int { return len(seen.Bound(wants)) })
				for name, s := range seen.Bound(wants) {
					if _, known := before[name]; !known {
						assert.Equal(t, testenv.Lane(wants).Name(c.node), s.Pod.Spec.NodeName)
						t.Logf("bound after %s", s.At.Sub(start).Round(time.Millisecond))
					}
				}
			})
		}
	}
}

// failInVain wakes the pods of a lane so many times by a node that turns out
// too small, and makes sure that they were tried.
func failInVain(w *testenv.World, l testenv.Lane, app string, times int) {
	w.T.Helper()
	small := l.Name("too-small")
	for range times {
		before := failedAttempts(w)
		w.ChangeNode(small, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: departingTaint, Effect: corev1.TaintEffectNoSchedule}}
		})
		w.ChangeNode(small, func(n *corev1.Node) { n.Spec.Taints = nil })
		w.Reaches("the waiting pods are tried without success", before+w.Split(app).Pending, func() int { return failedAttempts(w) })
	}
}

// failedAttempts counts the scheduler's attempts that found no node.
func failedAttempts(w *testenv.World) int {
	w.T.Helper()
	return w.Metric(w.Scheduler(), "scheduler_schedule_attempts_total", map[string]string{"result": "unschedulable", "profile": builders.Scheduler})
}

// settle waits until the scheduler has nothing left to try.
func settle(w *testenv.World) {
	w.T.Helper()
	const quiet = 400 * time.Millisecond
	last, since := failedAttempts(w), time.Now()
	w.Eventually("the scheduler is idle", func() (bool, string) {
		if now := failedAttempts(w); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > quiet, "not yet"
	})
}

// A node shows up some milliseconds before it takes pods. A pod that may borrow
// is tried on it too early, in several attempts on end, and must not miss the
// moment in which the node opens.
func TestBorrowingIsWithinTwoSecondsOfANodeOfTheOtherType(t *testing.T) {
	w := testenv.New(t, node("spot-full", spot, "500m"), node("on-demand-full", onDemand, "500m"))
	seen := w.RecordAll()
	for i := range 8 {
		wants := []string{spot, onDemand}[i%2]
		app, name := fmt.Sprintf("web-%d", i), fmt.Sprintf("new-%d", i)
		w.Create(builders.CapacityMix(app, allOf(wants), 0, spotThenOnDemand, onDemandThenSpot), builders.Deployment(app, 1, oneCPU))
		w.WaitUnschedulable(app, 1) // alone: another pod that waits would take the room that this one missed
		settle(w)
		w.AddNodes(node(name, other(wants), "1"))
		for _, s := range seen.WaitBound(app, 1, wakeBound) {
			assert.Equal(t, name, s.Pod.Spec.NodeName)
		}
	}
}

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
			change: patchMix(builders.SpotPercent(50)), wantBound: 2, wantWants: spot,
		},
		{
			name: "a lower minOnDemand does too", wants: onDemand, mix: changes{func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent, m.Spec.MinOnDemand = 100, 4 }},
			change: patchMix(func(m *v1alpha1.CapacityMix) { m.Spec.MinOnDemand = 1 }), wantBound: 3, wantWants: spot,
		},
		{
			name: "a lower spotPercent releases slots that waited for spot", wants: spot, mix: changes{spotOrWait},
			change: patchMix(builders.SpotPercent(0)), wantBound: 4, wantWants: onDemand,
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
			w.UpTo(wakeBound).Reaches("pods that are released", c.wantBound, func() int { return len(seen.Bound(app)) })
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
	testenv.Stays(w, wait+time.Second, "the pod waits for on-demand", 0, func() int { return len(seen.Bound("web")) })

	start := time.Now()
	testenv.Patch(w, m, builders.SpotPercent(100))
	w.AddNodes(node("on-demand-0", onDemand, "4"))
	for _, s := range seen.WaitBound("web", 1, wait+borrowBound) {
		assert.Equal(t, "on-demand-0", s.Pod.Spec.NodeName)
		assert.GreaterOrEqual(t, s.At.Sub(start), wait, "borrowed before it had waited for spot")
	}
}
