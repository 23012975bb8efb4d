// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// lean is what a cache keeps of a copy of an object.
func lean[T any](t require.TestingT, o T) T {
	kept, err := Lean(o)
	require.NoError(t, err)
	return kept.(T)
}

func TestALeanPodIsTheSameInAnOverview(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawPod(t)
		f := New(options())
		want := *f.podOf(o, nil)
		want.LocalData = ""
		got := *f.podOf(lean(t, o.DeepCopy()), nil)
		require.Empty(t, got.LocalData)
		require.Equal(t, want, got)
	})
}

func TestALeanNodeIsTheSameInAnOverview(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawNode(t)
		f := New(options())
		want := f.nodeOf(o, nil)
		require.Equal(t, want, f.nodeOf(lean(t, o.DeepCopy()), nil))
	})
}

func TestALeanOwnerIsTheSameInAnOverview(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOwner(t)
		want := Strip(o)
		kept, err := Lean(o)
		require.NoError(t, err)
		require.Equal(t, want, Strip(kept.(metav1.Object)))
		require.Equal(t, o.GetResourceVersion(), kept.(metav1.Object).GetResourceVersion())
	})
}

// A request takes a map, of which pods of a workload share one.
func TestLeanPodsShareTheirRequests(t *testing.T) {
	pod := func(cpu string) *corev1.Pod {
		p := &corev1.Pod{}
		p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requestsOf(cpu, "1Gi")}}}
		return lean(t, p)
	}
	one, same, other := pod("1"), pod("1"), pod("2")
	assert.Same(t, one.Spec.Resources, same.Spec.Resources)
	assert.Equal(t, "2", other.Spec.Resources.Requests.Cpu().String())
	assert.Equal(t, "1", one.Spec.Resources.Requests.Cpu().String())
	assert.Nil(t, lean(t, &corev1.Pod{}).Spec.Resources)
}

// The labels of a revision take more than most of a pod. Pods with the same share them, in whichever order they were read.
func TestLeanPodsShareTheirLabels(t *testing.T) {
	pod := func(labels map[string]string) map[string]string {
		return lean(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels}}).Labels
	}
	same := func(a, b map[string]string) bool { return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() }
	app := func(name string) map[string]string { return map[string]string{"app": name, "pod-template-hash": "1"} }
	one, other := pod(app("web")), pod(app("cart"))
	assert.True(t, same(one, pod(app("web"))))
	assert.Equal(t, app("web"), one)
	assert.Equal(t, app("cart"), other)
	assert.Nil(t, pod(nil))
	many := func() map[string]string {
		labels := map[string]string{}
		for i := range mostShared + 1 {
			labels[fmt.Sprint(i)] = strings.Repeat("x", 63)
		}
		return labels
	}
	assert.False(t, same(pod(many()), pod(many())), "what is kept of pods that are gone is bounded")
	rapid.Check(t, func(t *rapid.T) {
		labels := rapid.MapOf(rapid.StringMatching("[a-c]{1,2}"), rapid.StringMatching("[a-b]{0,1}")).Draw(t, "labels")
		require.Equal(t, labels, leanLabels(maps.Clone(labels)), "pods with other labels keep theirs")
	})
}

func TestALeanPodIsSmall(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 200_000)},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
	}}
	p.Spec.Containers = []corev1.Container{{Name: "web"}}
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: strings.Repeat("x", 30_000),
	}, {Type: corev1.PodInitialized}}
	kept := lean(t, p)
	assert.Empty(t, kept.Annotations)
	assert.Empty(t, kept.ManagedFields)
	assert.Empty(t, kept.Spec.Containers)
	require.Len(t, kept.Status.Conditions, 1)
	assert.Len(t, kept.Status.Conditions[0].Message, leanMessage)
}
