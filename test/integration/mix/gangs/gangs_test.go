// SPDX-License-Identifier: Apache-2.0

// Package gangs_test has the real scheduler place groups of pods, by the PodGroups of Kubernetes, with a mix.
package gangs_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

const gateOn = "--feature-gates=GenericWorkload=true"

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{
		NoScheduler:  true,
		FeatureGates: map[string]bool{"GenericWorkload": true},
		Rights: []testenv.Rights{{
			User: cluster.BerthSchedulerUser, ClusterRoles: []string{"berth-scheduler"}, NoneRefused: true,
			Counts: func(right string, _ *testenv.Request) bool { return strings.Contains(right, " scheduling.k8s.io/") },
		}},
	}))
}

// newWorld is a world with a scheduler that places groups.
func newWorld(t *testing.T, nodes ...cluster.NodeSpec) *testenv.World {
	t.Helper()
	w := testenv.New(t, nodes...)
	o := testenv.SchedulerOptions(testenv.SecondScheduler)
	o.Args = []string{gateOn}
	w.RunScheduler(o)
	return w
}

// node is a node for so many pods of one CPU.
func node(capacityType string, pods int) cluster.NodeSpec {
	return cluster.NodeSpec{Name: fmt.Sprintf("%s-%d", capacityType, pods), CapacityType: capacityType, CPU: fmt.Sprint(pods)}
}

// waitRefused waits until the scheduler has found no place for a group, and returns why.
func waitRefused(w *testenv.World, group string) string {
	w.T.Helper()
	var c *metav1.Condition
	testenv.WaitFor(w, group, "it is unschedulable", func(g *schedulingv1beta1.PodGroup) bool {
		c = meta.FindStatusCondition(g.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == schedulingv1beta1.PodGroupReasonUnschedulable
	})
	return c.Message
}

// waitPlaced waits until so many pods of an app are bound, others may be not, and returns them.
func waitPlaced(w *testenv.World, app string, n int) (pods []corev1.Pod) {
	w.T.Helper()
	testenv.Becomes(w, "bound pods of "+app, n, func() int {
		pods = testenv.Where(w.Live(app), testenv.Bound)
		return len(pods)
	})
	return pods
}

func TestAGangWithAMixIsPlacedAllOrNothingAndThenExactly(t *testing.T) {
	for name, template := range map[string][]func(*corev1.PodTemplateSpec){"by Filter": nil, "by the gate": {builders.Gated}} {
		t.Run(name, func(t *testing.T) { placesAGang(t, template...) })
	}
}

func placesAGang(t *testing.T, template ...func(*corev1.PodTemplateSpec)) {
	w := newWorld(t, node("spot", 8), node("on-demand", 2)) // 7 and 3 are needed
	h := w.History()
	w.Create(builders.PodGroup("gang", 10), builders.CapacityMix("gang", 70, 1),
		builders.Deployment("gang", 10, append(template, builders.InPodGroup("gang"), builders.CPU("1"))...))
	waitRefused(w, "gang")
	testenv.Stays(w, testenv.Short, "no member is bound before all can be", 0, h.Bound)

	// What the gang would take is free for others.
	others := builders.Deployment("others", 10, builders.CPU("1"))
	w.Create(others)
	w.WaitBound("others", 10)
	testenv.Stays(w, testenv.Short, "no member is bound", 10, h.Bound)
	w.Delete(others)
	w.WaitDeleted(others)

	w.AddNodes(node("on-demand", 4))
	for _, p := range w.RequireExact("gang", split.New(70, 1), 10) {
		_, ungated := gate.LimitedTo(&p)
		assert.Equal(t, len(template) > 0, ungated, "%s had the gate", p.Name)
	}
}

// The pods have no controller, so those of the mix are one group of slots: those that the waiting gang would take are free.
func TestAGangThatWaitsHoldsNoSlot(t *testing.T) {
	w := newWorld(t, node("spot", 4), node("on-demand", 4))
	w.Create(builders.PodGroup("gang", 4), builders.CapacityMix("web", 50, 0))
	for i := range 4 {
		w.Create(builders.Pod("web", fmt.Sprint("member-", i), builders.InPodGroup("gang"), builders.CPU("3")))
	}
	waitRefused(w, "gang")
	for i := range 4 {
		w.Create(builders.Pod("web", fmt.Sprint("single-", i), builders.CPU("1")))
	}
	w.RequireExactPods(waitPlaced(w, "web", 4), split.New(50, 0))
	w.AddNodes(node("spot", 8), node("on-demand", 8))
	w.RequireExact("web", split.New(50, 0), 8)
}

func TestAGangBorrowsTogetherAndOnlyWhatIsMissing(t *testing.T) {
	w := newWorld(t, node("spot", 3), node("on-demand", 10))
	h := w.History()
	w.Create(builders.PodGroup("gang", 6),
		builders.CapacityMix("gang", 100, 0, builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableOnDemand, 3)),
		builders.Deployment("gang", 6, builders.InPodGroup("gang"), builders.CPU("1")))
	assert.Contains(t, waitRefused(w, "gang"), "spot has had no capacity for this pod since")
	assert.Zero(t, h.Bound(), "all wait")
	w.WaitSplit("gang", "what spot has no capacity for borrows", testenv.Split{Spot: 3, OnDemand: 3})
}

func TestAGangPreemptsOnTheTypesOfItsSlots(t *testing.T) {
	w := newWorld(t, node("spot", 2), node("on-demand", 2))
	w.CreateForTest(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000})
	w.Fill("spot-2", 2)
	w.Fill("on-demand-2", 2)
	gang := builders.PodGroup("gang", 2)
	gang.Spec.PriorityClassName = "high"
	w.Create(gang, builders.CapacityMix("gang", 50, 0, builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableWait, 0)),
		builders.Deployment("gang", 2, builders.InPodGroup("gang"), builders.CPU("1"), builders.PriorityClass("high")))
	w.RequireExact("gang", split.New(50, 0), 2)
	assert.Len(t, w.Live("fill-spot-2"), 1)
	assert.Len(t, w.Live("fill-on-demand-2"), 1)
}

// The rest of a gang that has its minimum is placed as capacity comes, and a member that is deleted is replaced.
func TestMembersBeyondTheMinimumAndReplacementsHaveTheExactMix(t *testing.T) {
	w := newWorld(t, node("spot", 3), node("on-demand", 3))
	w.Create(builders.PodGroup("gang", 4), builders.CapacityMix("gang", 50, 0, builders.WhenSpotUnavailable(v1alpha1.WhenSpotUnavailableWait, 0)),
		builders.Deployment("gang", 10, builders.InPodGroup("gang"), builders.CPU("1")))
	w.RequireExactPods(waitPlaced(w, "gang", 6), split.New(50, 0))
	w.AddNodes(node("spot", 2), node("on-demand", 2))
	pods := w.RequireExact("gang", split.New(50, 0), 10)
	w.Delete(&pods[3])
	w.WaitGone(pods[3:4])
	w.RequireExact("gang", split.New(50, 0), 10)
}

func TestTheGangOfTheDocumentationIsPlaced(t *testing.T) {
	w := newWorld(t, node("spot", 8), node("on-demand", 8))
	_, example, _ := strings.Cut(testenv.ReadFile(t, testenv.Path("docs/configuration.md")), "## Place gangs with a mix")
	_, example, _ = strings.Cut(example, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	require.NoError(t, w.Cluster.Apply(w.Ctx, strings.ReplaceAll(example, "namespace: shop", "namespace: "+w.Namespace)))
	w.RequireExact("training", split.New(75, 1), 8)
}

func TestWithoutTheFeatureGateNoMemberIsPlaced(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.RunScheduler(testenv.SchedulerOptions(testenv.SecondScheduler))
	h := w.History()
	w.Create(builders.PodGroup("gang", 3), builders.CapacityMix("web", 70, 1),
		builders.Deployment("web", 3, builders.InPodGroup("gang")),
		builders.Deployment("plain", 3, builders.InPodGroup("gang"))) // no mix governs it
	for _, app := range []string{"web", "plain"} {
		for _, p := range w.WaitUnschedulable(app, 3) {
			assert.Contains(t, testenv.Unschedulable(&p), "spec.schedulingGroup")
			e := w.WaitEvent(p.Name, "it names the field and the feature gate", func(e *corev1.Event) bool {
				return e.Reason == "FailedScheduling" && strings.Contains(e.Message, "spec.schedulingGroup")
			})
			assert.Contains(t, e.Message, gateOn)
		}
	}
	w.Create(builders.Deployment("other", 3))
	w.WaitBound("other", 3)
	testenv.Stays(w, testenv.Short, "no member is bound", 3, h.Bound)
}

func TestAMemberIsNotMovedToRepairTheMix(t *testing.T) {
	w := newWorld(t, node("on-demand", 8))
	w.Create(builders.PodGroup("gang", 4), builders.CapacityMix("gang", 50, 0),
		builders.Deployment("gang", 4, builders.InPodGroup("gang"), builders.CPU("1")))
	w.WaitSplit("gang", "spot slots borrow", testenv.Split{OnDemand: 4})
	w.WaitReady("gang", 4)
	w.AddNodes(node("spot", 8))
	w.Controller(testenv.Impatient)
	w.WaitBlocked("gang", "PodGroupMember", "member of a PodGroup")
	testenv.Stays(w, testenv.Short, "no member is evicted", 0, w.Evicted)
}
