// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// Explain named slot 4 of a pod of which the scheduler wrote that slot 2 needs on-demand.
func TestAPendingPodHasTheSlotThatTheSchedulerTried(t *testing.T) {
	m := split.New(50, 1)
	g := &clusterstate.Group{Governing: &governing.Mix{Mix: m}}
	assignment := clusterstate.Assignment{Place: clusterstate.Pending, Assignment: split.Assignment{Wants: m.TypeOf(4), Pod: split.Pod{Slot: 4, On: m.TypeOf(4)}}}
	counted := SlotFacts{Number: 4, Type: m.TypeOf(4).String(), From: "count"}
	two := m.TypeOf(2).String()
	other := m.TypeOf(2).Other().String()
	for message, want := range map[string]SlotFacts{
		"0/3 nodes are available: 2 node(s) are " + other + ", slot 2 needs " + two + ", 1 Insufficient cpu.": {Number: 2, Type: two, From: "scheduler"},
		"0/3 nodes are available: 2 node(s) are " + two + ", slot 2 needs " + other + ".":                     counted,
		"0/3 nodes are available: 3 Insufficient cpu.":                                                        counted,
		"slot 99999999 needs spot": counted,
		"":                         counted,
	} {
		pod := &corev1.Pod{}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}}
		e := &explainer{PodQuestion: PodQuestion{Pod: pod}, record: &clusterstate.Pod{}}
		got := e.slotOf(g, assignment)
		assert.Equal(t, want, got, message)
		assert.Equal(t, want.Type, got.waitsFor(assignment), message)
	}
	settled := assignment
	settled.Place = clusterstate.Settled
	e := &explainer{PodQuestion: PodQuestion{Pod: &corev1.Pod{}}, record: &clusterstate.Pod{}}
	assert.Equal(t, counted, e.slotOf(g, settled))
}

func TestAnExplanationNamesWhoDecidedTheDeletionCost(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		v1alpha1.SlotAnnotation: "2", v1alpha1.PodDeletionCostAnnotation: "-7",
	}}}
	const after = "; pods that are pending or not Ready are removed before all others"
	for name, tc := range map[string]struct {
		respects bool
		manager  string
		want     string
	}{
		"the user":                  {false, "kubectl-annotate", "first of its revision (deletion cost -7, which the user set and Berth does not change)"},
		"another client":            {false, "karpenter", "first of its revision (deletion cost -7, which another client wrote and the controller restores)"},
		"no one, as it was removed": {false, "", "first of its revision (deletion cost 0, which the controller changes to that of the slot)"},
		"Respect":                   {true, "karpenter", "first of its revision (deletion cost -7, which Berth leaves to others: deletionCost is Respect)"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := pod.DeepCopy()
			pod.Namespace, pod.Name, pod.UID, pod.Spec.NodeName = "shop", "web", "web", "node"
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7d", UID: "rs", Controller: new(true)}}
			pod.ManagedFields = []metav1.ManagedFieldsEntry{{
				Manager:  tc.manager,
				FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:controller.kubernetes.io/pod-deletion-cost":{}}}}`),
			}}
			if tc.manager == "" {
				delete(pod.Annotations, v1alpha1.PodDeletionCostAnnotation)
			}
			classifier, err := capacity.NewClassifier(capacity.DefaultRules())
			require.NoError(t, err)
			state := clusterstate.New(clusterstate.Options{Classifier: classifier})
			state.SetPod(pod)
			e := &explainer{PodQuestion: PodQuestion{Pod: pod}, record: state.Pod("shop", "web")}
			e.record.Ready = true
			g := &clusterstate.Group{Governing: &governing.Mix{RespectCosts: tc.respects}}
			assert.Equal(t, tc.want+after, e.deletion(g))
		})
	}
}
