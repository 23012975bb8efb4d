// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"berth.dev/berth/apis/config"
	configv1 "berth.dev/berth/apis/config/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
)

// Noon is the time at which tests with a clock begin.
var Noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// Args are the arguments with their defaults.
func Args() *config.CapacityMixArgs {
	v1 := &configv1.CapacityMixArgs{}
	configv1.SetDefaults_CapacityMixArgs(v1)
	args := &config.CapacityMixArgs{}
	if err := configv1.Convert_v1_CapacityMixArgs_To_config_CapacityMixArgs(v1, args, nil); err != nil {
		panic(err)
	}
	return args
}

// CapacityMix is a mix of the pods of an app in namespace shop.
func CapacityMix(app string, percent, floor int32, changes ...func(*v1alpha1.CapacityMix)) *v1alpha1.CapacityMix {
	identity := func(cm *v1alpha1.CapacityMix) { cm.Namespace, cm.UID, cm.Generation = "shop", types.UID(app), 1 }
	return builders.CapacityMix(app, percent, floor, append([]func(*v1alpha1.CapacityMix){identity}, changes...)...)
}

// Node is a node in a zone of its own.
func Node(name, capacityType string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"karpenter.sh/capacity-type": capacityType,
			corev1.LabelTopologyZone:     name,
		}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("4"),
			corev1.ResourceMemory: resource.MustParse("8Gi"),
			corev1.ResourcePods:   resource.MustParse("110"),
		}},
	}
}

// NodeName is the name of one of several nodes.
func NodeName(prefix string, i int) string { return fmt.Sprintf("%s-%d", prefix, i) }

// Pod is a pod of a controller named after its app, of a kind that is not watched.
func Pod(app string, i int) *corev1.Pod {
	pod := builders.Pod(app, NodeName(app, i), builders.OwnedBy(metav1.OwnerReference{
		APIVersion: "example.com/v1", Kind: "Set", Name: app, UID: types.UID(app),
	}))
	pod.Namespace, pod.UID = "shop", types.UID(pod.Name)
	return pod
}

// GatedPod is a Pod with the scheduling gate.
func GatedPod(app string, i int) *corev1.Pod {
	p := Pod(app, i)
	p.ResourceVersion = "5"
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}}
	return p
}

// OwnedPod is a pod of a ReplicaSet.
func OwnedPod(name, owner string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: new(true),
		}},
	}}
}

// Unschedulable is a pod for which a scheduler found no node; the condition is False since a time.
func Unschedulable(pod *corev1.Pod, since time.Time) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Status.Conditions = []corev1.PodCondition{{
		Type:               corev1.PodScheduled,
		Status:             corev1.ConditionFalse,
		Reason:             corev1.PodReasonUnschedulable,
		LastTransitionTime: metav1.NewTime(since),
	}}
	return pod
}

// Objects are pods as runtime objects.
func Objects(pods ...*corev1.Pod) []runtime.Object {
	out := make([]runtime.Object, 0, len(pods))
	for _, p := range pods {
		out = append(out, p)
	}
	return out
}

// Patched is a pod as the API server has it after a strategic merge patch.
func Patched(t require.TestingT, pod *corev1.Pod, patch []byte) *corev1.Pod {
	before, err := json.Marshal(pod)
	require.NoError(t, err)
	text, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Pod{})
	require.NoError(t, err)
	after := &corev1.Pod{}
	require.NoError(t, json.Unmarshal(text, after))
	return after
}
