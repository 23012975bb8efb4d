// SPDX-License-Identifier: Apache-2.0

package fallback_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
			testenv.Patch(w, named(l.Name(node)), func(n *corev1.Node) { change(n, wants) })
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

func named(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

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
				w.Within(wakeBound, "one more pod is bound", func() (bool, string) { return len(seen.Bound(wants)) > i, "none" })
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
	small := named(l.Name("too-small"))
	for range times {
		before := failedAttempts(w)
		testenv.Patch(w, small, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: departingTaint, Effect: corev1.TaintEffectNoSchedule}}
		})
		testenv.Patch(w, small, func(n *corev1.Node) { n.Spec.Taints = nil })
		pending := w.Split(app).Pending
		w.Eventually("the waiting pods are tried without success", func() (bool, string) { return failedAttempts(w) >= before+pending, "not yet" })
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
