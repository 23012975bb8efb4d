// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
)

func apiNode(name, capacityType string, unschedulable bool) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"karpenter.sh/capacity-type": capacityType}},
		Spec:       corev1.NodeSpec{Unschedulable: unschedulable},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func apiPod(name, node, slot, slotType string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": web}, Annotations: map[string]string{
			"berth.dev/slot": slot, "berth.dev/capacity-type": slotType,
		}},
		Spec: corev1.PodSpec{NodeName: node},
	}
}

func TestAPictureHasTheStateInTheAPIServer(t *testing.T) {
	classifier, err := capacity.NewClassifier(capacity.DefaultRules())
	require.NoError(t, err)
	terminating := apiPod("terminating", "spot-0", "3", "spot")
	terminating.DeletionTimestamp = new(metav1.Now())
	waits := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "waits", Labels: map[string]string{"app": web}}}
	waits.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "no free capacity"},
	}

	pic := take(
		[]corev1.Node{
			apiNode("what", "strange", false), apiNode("on-demand-0", "on-demand", false),
			apiNode("spot-1", "spot", true), apiNode("spot-0", "spot", false),
		},
		[]corev1.Pod{apiPod("b", "on-demand-0", "4", "spot"), terminating, apiPod("a", "spot-0", "2", "spot"), waits}, classifier)

	var nodes []string
	for _, n := range pic.nodes {
		nodes = append(nodes, n.name)
	}
	require.Equal(t, []string{"spot-0", "spot-1", "on-demand-0", "what"}, nodes)
	pods := pic.of(web)
	require.Len(t, pods, 3, "a terminating pod is no replica any more")
	require.Equal(t, split.NoSlot, pods[0].slot)
	require.Equal(t, "no free capacity", pods[0].waits)
	require.False(t, pods[1].borrows())
	require.True(t, pods[2].borrows(), "slot 4 is spot and runs on on-demand")
	c, pending := count(pods)
	require.Equal(t, split.Count{Spot: 1, OnDemand: 1}, c)
	require.Equal(t, 1, pending)
	podCapacity, free := pic.capacities(capacity.Spot)
	require.Equal(t, []int{4, 3}, []int{podCapacity, free}, "a cordoned node has no free capacity")
}
