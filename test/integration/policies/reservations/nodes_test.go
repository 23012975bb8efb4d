// SPDX-License-Identifier: Apache-2.0

package reservations_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// changeNode changes a node, by a patch of its status where that is changed.
func changeNode(w *testenv.World, name string, change func(*corev1.Node)) {
	w.T.Helper()
	node := testenv.Read(w, name, &corev1.Node{})
	before := node.DeepCopy()
	change(node)
	require.NoError(w.T, w.Client.Patch(w.Ctx, node.DeepCopy(), client.MergeFrom(before)))
	require.NoError(w.T, w.Client.Status().Patch(w.Ctx, node, client.MergeFrom(before)))
}

// A node that pods cannot use holds nothing for them: the condition has the node and the cause, until it can be used again.
func TestAReservationFollowsItsNode(t *testing.T) {
	label := func(value string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels["pool"] = value }
	}
	for name, tc := range map[string]struct {
		change, back func(*corev1.Node)
		message      string
	}{
		"cordoned": {
			change:  func(n *corev1.Node) { n.Spec.Unschedulable = true },
			back:    func(n *corev1.Node) { n.Spec.Unschedulable = false },
			message: `node "node-0" is cordoned`,
		},
		"tainted": {
			change:  func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}} },
			back:    func(n *corev1.Node) { n.Spec.Taints = nil },
			message: `spec.tolerations: node "node-0" has the taint x:NoSchedule`,
		},
		"relabelled": {
			change: label("b"), back: label("a"),
			message: `spec.nodeSelector: node "node-0" does not have the label pool=a`,
		},
		"shrunk": {
			change:  func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("2") },
			back:    func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("4") },
			message: `spec.cpu: node "node-0" has 2 allocatable, less than 3`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := testenv.New(t, two()...)
			start(w)
			changeNode(w, "node-0", label("a"))
			w.Create(builders.Reservation("kept", "web", "3", func(s *v1alpha1.ReservationSpec) {
				s.NodeSelector = map[string]string{"pool": "a"}
			}))
			waitFor(w, "kept", v1alpha1.ReasonReserved, 1, 0)

			changeNode(w, "node-0", tc.change)
			testenv.WaitFor(w, "kept", "the cause in the condition", func(r *v1alpha1.Reservation) bool {
				c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReserved)
				return c.Status == metav1.ConditionFalse && strings.Contains(c.Message, tc.message) && r.Status.HeldCount == 0
			})
			w.WaitEvent("kept", tc.message, func(e *corev1.Event) bool {
				return e.Type == corev1.EventTypeWarning && strings.Contains(e.Message, tc.message)
			})
			changeNode(w, "node-0", tc.back)
			waitFor(w, "kept", v1alpha1.ReasonReserved, 1, 0)

			changeNode(w, "node-1", label("a"))
			changeNode(w, "node-0", tc.change)
			r := testenv.WaitFor(w, "kept", "the other node", func(r *v1alpha1.Reservation) bool {
				return r.Status.HeldCount == 1 && len(r.Status.Holds) == 1 && r.Status.Holds[0].NodeName == "node-1"
			})
			assert.True(t, meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionReserved))
			w.Create(builders.Pod("web", "web-0", builders.CPU("3")))
			w.WaitBound("web", 1)
			assert.Equal(t, "node-1", testenv.Read(w, "web-0", &corev1.Pod{}).Spec.NodeName)
		})
	}
}

// Reservations that name a node, from any namespace, hold nothing there that it does not have, and nothing of others.
func TestAReservationThatNamesANodeTakesNothingFromOthers(t *testing.T) {
	w := testenv.New(t, two()...)
	start(w)
	on := func(name string) func(*v1alpha1.ReservationSpec) {
		return func(s *v1alpha1.ReservationSpec) { s.NodeName = name }
	}
	w.Create(builders.Reservation("fits", "web", "2", on("node-0")))
	waitFor(w, "fits", v1alpha1.ReasonReserved, 1, 0)
	for i, cpu := range []string{"4", "1M", "1M", "1M", "1M"} {
		name := fmt.Sprintf("large-%d", i)
		w.Create(builders.Reservation(name, "other", cpu, on("node-0")))
		r := waitFor(w, name, v1alpha1.ReasonUnschedulable, 0, 0)
		if cpu != "4" {
			assert.Contains(t, message(t, r), `spec.cpu: node "node-0" has 4 allocatable, less than 1M`)
		}
	}
	w.Create(builders.Deployment("db", 8, builders.CPU("1")))
	waitBoundOf(w, "db", 6)
	w.Create(builders.Pod("web", "web-0", builders.CPU("2")))
	w.WaitBound("web", 1)
	waitFor(w, "fits", v1alpha1.ReasonUsed, 0, 1)
	w.AddNodes(cluster.NodeSpec{Name: "unused", CPU: "1", Memory: "1Gi"})
	w.Create(builders.Reservation("absent", "web", "1", on("absent")))
	r := waitFor(w, "absent", v1alpha1.ReasonUnschedulable, 0, 0)
	assert.Contains(t, message(t, r), `node "absent" does not exist`)
}

// A pod that another scheduler places takes capacity that was held: its Reservation reports it, and holds it elsewhere.
func TestCapacityThatAnotherSchedulerTookIsReported(t *testing.T) {
	w := testenv.New(t, cluster.Nodes("", 1, func(n *cluster.NodeSpec) { n.CPU, n.Memory = "4", "16Gi" })...)
	start(w)
	w.Create(builders.Reservation("kept", "web", "3"))
	waitFor(w, "kept", v1alpha1.ReasonReserved, 1, 0)

	w.Create(builders.Pod("db", "db-0", builders.CPU("2"), func(p *corev1.PodTemplateSpec) { p.Spec.NodeName = "node-0" }))
	r := waitFor(w, "kept", v1alpha1.ReasonUnschedulable, 0, 0)
	assert.Contains(t, message(t, r), `node "node-0" has no cpu left that can be held: its pods request more than before`)
	w.WaitEvent("kept", "what was released", func(e *corev1.Event) bool { return e.Reason == v1alpha1.ReasonReleased })
	w.AddNodes(cluster.NodeSpec{Name: "new", CPU: "4", Memory: "16Gi"})
	assert.Equal(t, "new", waitFor(w, "kept", v1alpha1.ReasonReserved, 1, 0).Status.Holds[0].NodeName)
}

// A policy or a limit that selects all pods of the namespace does not govern the placeholder pod of a Reservation.
func TestNoRuleForPodsGovernsAReservation(t *testing.T) {
	w := testenv.New(t, two()...)
	start(w)
	all := group("", 2, 60)
	all.Spec.PodSelector.MatchLabels = nil
	w.Create(all)
	w.Create(builders.Reservation("kept", "web", "3"))
	waitFor(w, "kept", v1alpha1.ReasonReserved, 1, 0)
}
