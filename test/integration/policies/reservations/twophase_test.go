// SPDX-License-Identifier: Apache-2.0

package reservations_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// group makes a policy by which so many pods of an app are bound together.
func group(app string, size, seconds int32) *v1alpha1.SchedulingPolicy {
	return builders.SchedulingPolicy("together", func(s *v1alpha1.SchedulingPolicySpec) {
		s.PodSelector.MatchLabels = builders.Labels(app)
		s.Bind = &v1alpha1.BindRules{Mode: v1alpha1.BindTwoPhase, GroupSize: &size, ReservationSeconds: &seconds}
	})
}

func prepared(w *testenv.World) []string { return w.Names(&v1alpha1.ReservationList{}) }

// A group that does not fit is not bound in part, gives its nodes back in time, and is bound when there is room for all of it.
func TestAGroupIsBoundTogetherOrNotAtAll(t *testing.T) {
	w := testenv.New(t, two()...)
	start(w)
	other := builders.Deployment("other", 1, builders.CPU("1"))
	w.Create(group("train", 4, 3), other)
	w.WaitBound("other", 1)
	w.Create(builders.StatefulSet("train", 4, appsv1.ParallelPodManagement, builders.CPU("2")))
	bound := func(app string) int { return len(testenv.Where(w.Live(app), testenv.Bound)) }
	w.Eventually("all are tried", func() (bool, string) { n := len(w.Live("train")); return n == 4, fmt.Sprint(n) })
	w.Always(2*testenv.Short, "none is bound", func() (bool, string) { return bound("train") == 0, fmt.Sprint(bound("train")) })

	// The three that have a node do not keep others off it for longer than reservationSeconds.
	w.Create(builders.Deployment("small", 6, builders.CPU("1")))
	w.WaitBound("small", 6)
	assert.Empty(t, prepared(w))

	w.Delete(testenv.Read(w, "small", &appsv1.Deployment{}))
	w.Scale(other, 0)
	w.WaitBound("train", 4)
	w.Eventually("nothing is left of the preparation", func() (bool, string) { r := prepared(w); return len(r) == 0, fmt.Sprint(r) })

	// A member that is replaced waits for no others: the group is complete with it.
	w.Delete(testenv.Read(w, "train-2", &corev1.Pod{}))
	w.WaitBound("train", 4)
}

// A scheduler that is killed when some of a group are bound leaves the capacity for the rest to the next one.
func TestAKilledSchedulerLeavesNoGroupBoundInPart(t *testing.T) {
	w := testenv.New(t, two()...)
	o := w.Variant(testenv.SecondScheduler)
	o.LeaderElection = &cluster.LeaderElection{Enabled: new(false)}
	s := w.StartScheduler(o)
	allow := refuseBinding(w, "train-3")
	w.Create(group("train", 4, 300), builders.StatefulSet("train", 4, appsv1.ParallelPodManagement, builders.CPU("2")))
	bound := func() int { return len(testenv.Where(w.Live("train"), testenv.Bound)) }
	w.Eventually("three are bound", func() (bool, string) { return bound() == 3, fmt.Sprint(bound()) })
	testenv.Kill(s)
	last := testenv.Read(w, "train-3", &corev1.Pod{})
	w.Eventually("what was prepared for the fourth is left", func() (bool, string) {
		return strings.Contains(strings.Join(prepared(w), " "), "prepared-"+string(last.UID)), fmt.Sprint(prepared(w))
	})

	s = w.StartScheduler(o)
	t.Cleanup(func() { testenv.Kill(s) })
	w.Create(builders.Deployment("other", 2, builders.CPU("1")))
	waitBoundOf(w, "other", 0)
	allow()
	w.WaitBound("train", 4)
	assert.Equal(t, last.UID, testenv.Read(w, "train-3", &corev1.Pod{}).UID, "the same pod")
	w.Eventually("nothing is left of the preparation", func() (bool, string) { r := prepared(w); return len(r) == 0, fmt.Sprint(r) })
}

// The pods of a group that is not complete have nodes by a mix that changes before the last one comes.
func TestAGroupIsBoundByTheMixThatItHasThen(t *testing.T) {
	w := testenv.New(t, append(cluster.Nodes("spot", 2), cluster.Nodes("on-demand", 2)...)...)
	start(w)
	train := builders.Deployment("train", 5)
	together := group("train", 6, 300)
	together.Spec.Bind.GroupLabelKey = "app" // the group of a ReplicaSet would have no more than its five replicas
	w.Create(builders.CapacityMix("train", 50, 0), together)
	w.Create(train)
	w.Reaches("members that wait have a nominated node", 5, func() int {
		return len(testenv.Where(w.Live("train"), func(p *corev1.Pod) bool { return p.Status.NominatedNodeName != "" }))
	})
	w.ChangeMix("train", func(cm *v1alpha1.CapacityMix) { cm.Spec.SpotPercent = 0 })
	pods := w.Live("train")
	w.Scale(train, 6)
	w.RequireExact("train", split.New(0, 0), 6)
	live := map[types.UID]bool{}
	for _, p := range w.Live("train") {
		live[p.UID] = true
	}
	for _, p := range pods {
		assert.True(t, live[p.UID], "%s was bound by the old mix, and evicted", p.Name)
	}
	w.Eventually("nothing is left of the preparation", func() (bool, string) { r := prepared(w); return len(r) == 0, fmt.Sprint(r) })
}

// A chart creates its mix last, when the members that came first wait for the others: none is bound without the mix, and none before
// there are nodes of its type for all.
func TestAGroupFollowsAMixThatComesWhileItWaits(t *testing.T) {
	four := func(n *cluster.NodeSpec) { n.CPU, n.Memory = "4", "16Gi" }
	w := testenv.New(t, append(cluster.Nodes("spot", 2, four), cluster.Nodes("on-demand", 1, four)...)...)
	start(w)
	train := builders.Deployment("train", 5, builders.CPU("1"))
	together := group("train", 6, 300)
	together.Spec.Bind.GroupLabelKey = "team"
	w.Create(together)
	train.Spec.Template.Labels["team"] = "a"
	w.Create(train)
	w.Reaches("members that wait have a nominated node", 5, func() int {
		return len(testenv.Where(w.Live("train"), func(p *corev1.Pod) bool { return p.Status.NominatedNodeName != "" }))
	})
	w.Create(builders.CapacityMix("train", 0, 0))
	w.Scale(train, 6)
	bound := func() (bool, string) {
		n := len(testenv.Where(w.Live("train"), testenv.Bound))
		return n == 0, fmt.Sprint(n)
	}
	w.Eventually("all are there", func() (bool, string) { n := len(w.Live("train")); return n == 6, fmt.Sprint(n) })
	w.Always(3*testenv.Short, "there is room for four of them on its type: none is bound", bound)
	w.AddNodes(cluster.Nodes("on-demand", 2, four)[1])
	w.RequireExact("train", split.New(0, 0), 6)
	w.Eventually("nothing is left of the preparation", func() (bool, string) { r := prepared(w); return len(r) == 0, fmt.Sprint(r) })
}

// refuseBinding has the API server refuse to bind a pod, and waits until it does. It returns what ends that.
func refuseBinding(w *testenv.World, pod string) (allow func()) {
	w.T.Helper()
	probe := builders.Pod("probe", pod+"-probe", builders.SchedulerName("none"))
	w.Create(probe)
	return w.Forbid(pod, "pods/binding", func() error {
		b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: probe.Name}}
		b.Target = corev1.ObjectReference{Kind: "Node", Name: "node-0"}
		return w.Client.SubResource("binding").Create(w.Ctx, probe.DeepCopy(), b, client.DryRunAll)
	})
}

// A Reservation has no field for huge pages. Pods that request some are prepared and bound by their other requests.
func TestAGroupWithHugePagesIsBound(t *testing.T) {
	const hugePages = corev1.ResourceName("hugepages-2Mi")
	w := testenv.New(t, two()...)
	start(w)
	for _, n := range []string{"node-0", "node-1"} {
		node := testenv.Read(w, n, &corev1.Node{})
		old := node.DeepCopy()
		node.Status.Capacity[hugePages], node.Status.Allocatable[hugePages] = resource.MustParse("1Gi"), resource.MustParse("1Gi")
		assert.NoError(t, w.Client.Status().Patch(w.Ctx, node, client.MergeFrom(old)))
	}
	w.Create(group("train", 2, 60), builders.StatefulSet("train", 2, appsv1.ParallelPodManagement, builders.CPU("2"),
		func(t *corev1.PodTemplateSpec) {
			r := &t.Spec.Containers[0].Resources
			r.Requests[hugePages] = resource.MustParse("1Gi")
			r.Limits = corev1.ResourceList{hugePages: resource.MustParse("1Gi")}
		}))
	w.WaitBound("train", 2)
	nodes, most := map[string]bool{}, 0
	for _, p := range w.Live("train") {
		nodes[p.Spec.NodeName] = true
		most++
	}
	assert.Len(t, nodes, most, "a node has huge pages for one of them")
}

// A pod that belongs to no group is not bound, and its condition reports why.
func TestAPodWithoutAGroupIsNotBoundInTwoPhases(t *testing.T) {
	w := testenv.New(t, two()...)
	start(w)
	w.Create(group("train", 2, 60), builders.Pod("train", "alone"))
	w.Eventually("the reason is reported", func() (bool, string) {
		why := testenv.Unschedulable(testenv.Read(w, "alone", &corev1.Pod{}))
		return strings.Contains(why, "the pod has no controller, and the policy no groupLabelKey"), why
	})
}
