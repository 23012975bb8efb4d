// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

const floorLabel = "0123456789abcdef"

func TestOnlyTheControllerLabelsTheReplicasOfAFloor(t *testing.T) {
	s := start(t)
	plain := s.pod("plain", bound)
	labelled := s.pod("labelled", bound, func(p *corev1.Pod) { p.Labels[v1alpha1.FloorLabel] = floorLabel })
	set := func(value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels[v1alpha1.FloorLabel] = value }
	}
	remove := func(p *corev1.Pod) { delete(p.Labels, v1alpha1.FloorLabel) }
	for name, tc := range map[string]struct {
		c      client.Client
		pod    *corev1.Pod
		change func(*corev1.Pod)
		want   string
	}{
		"the controller adds it":          {s.controller, plain, set(floorLabel), ""},
		"the controller changes it":       {s.controller, labelled, set("fedcba9876543210"), ""},
		"the controller removes it":       {s.controller, labelled, remove, ""},
		"a value that is none of Berth":   {s.controller, plain, set("web"), "metadata.labels:"},
		"the controller, and another one": {s.controller, plain, func(p *corev1.Pod) { set(floorLabel)(p); p.Labels["app"] = "db" }, "metadata.labels:"},
		"the scheduler adds it":           {s.scheduler, plain, set(floorLabel), "metadata.labels:"},
		"the scheduler removes it":        {s.scheduler, labelled, remove, "metadata.labels:"},
	} {
		t.Run(name, func(t *testing.T) {
			s.judge(t, patch(s, tc.c, testenv.Read(s.World, tc.pod.Name, &corev1.Pod{}), tc.change), tc.want)
		})
	}
	waiting := s.pod("waits")
	for label, want := range map[string]string{v1alpha1.FloorLabel: "", "app": "metadata.labels:"} {
		b := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "on-demand-0"}}
		b.Labels = map[string]string{label: floorLabel}
		s.judge(t, s.scheduler.SubResource("binding").Create(s.Ctx, waiting.DeepCopy(), b, client.DryRunAll), want)
	}
}

func TestTheControllerWritesOnlyBudgetsOfFloors(t *testing.T) {
	s := start(t)
	budget := func(change func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
		b := builders.PodDisruptionBudget("x")
		b.Namespace, b.Name, b.Labels = s.Namespace, "berth-floor-"+floorLabel, map[string]string{v1alpha1.FloorLabel: floorLabel}
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.FloorLabel: floorLabel}}
		b.Spec.MinAvailable = new(intstr.FromInt32(2))
		b.OwnerReferences = []metav1.OwnerReference{{APIVersion: "berth.dev/v1alpha1", Kind: "CapacityMix", Name: "web", UID: "1", Controller: new(true)}}
		change(b)
		return b
	}
	for name, tc := range map[string]struct {
		change func(*policyv1.PodDisruptionBudget)
		want   string
	}{
		"of a floor":           {func(*policyv1.PodDisruptionBudget) {}, ""},
		"without the label":    {func(b *policyv1.PodDisruptionBudget) { b.Labels = nil }, "metadata.labels:"},
		"with another name":    {func(b *policyv1.PodDisruptionBudget) { b.Name = "x" }, "metadata.labels:"},
		"without a mix":        {func(b *policyv1.PodDisruptionBudget) { b.OwnerReferences = nil }, "metadata.ownerReferences:"},
		"of another kind":      {func(b *policyv1.PodDisruptionBudget) { b.OwnerReferences[0].Kind = "Environment" }, "metadata.ownerReferences:"},
		"over every pod":       {func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} }, "spec.selector:"},
		"over an app":          {func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels = builders.Labels("web") }, "spec.selector:"},
		"over another label":   {func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels[v1alpha1.FloorLabel] = "x" }, "spec.selector:"},
		"without any selector": {func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = nil }, "spec.selector:"},
	} {
		t.Run(name, func(t *testing.T) {
			s.judge(t, s.controller.Create(s.Ctx, budget(tc.change), client.DryRunAll), tc.want)
		})
	}
	theirs := builders.PodDisruptionBudget("theirs")
	s.Create(theirs)
	s.judge(t, s.controller.Delete(s.Ctx, theirs.DeepCopy(), client.DryRunAll), "metadata.labels:")
	s.judge(t, patch(s, s.controller, theirs.DeepCopy(), func(b *policyv1.PodDisruptionBudget) {
		b.Labels = map[string]string{v1alpha1.FloorLabel: floorLabel}
	}), "metadata.labels:")
}
