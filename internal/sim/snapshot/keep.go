// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/mix/capacity"
)

// The functions of this file, and of those with its prefix, name each field that a snapshot has: a field that a later version of
// Kubernetes adds is not in it until a line names it. Types that are copied as a whole are those of selectors, affinity, tolerations and
// resources; testdata/kept.txt has their fields, and a test finds one that was added.

// keepMeta keeps the metadata: no field manager, no finalizer, and of annotations those that decisions read.
func keepMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	out := metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp.DeepCopy(),
		Labels: maps.Clone(m.Labels), Annotations: keepAnnotations(m.Annotations),
	}
	for i := range m.OwnerReferences {
		r := &m.OwnerReferences[i]
		out.OwnerReferences = append(out.OwnerReferences, metav1.OwnerReference{
			APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, UID: r.UID, Controller: copyOf(r.Controller),
		})
	}
	return out
}

func keepNamespace(n *corev1.Namespace) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: keepMeta(&n.ObjectMeta)}
}

func keepPriorityClass(c *schedulingv1.PriorityClass) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{
		ObjectMeta: keepMeta(&c.ObjectMeta), Value: c.Value, GlobalDefault: c.GlobalDefault, PreemptionPolicy: copyOf(c.PreemptionPolicy),
	}
}

// keepNode keeps no address, no image and no version of a program. Of the provider's ID, it keeps whether there is no machine.
func keepNode(n *corev1.Node) *corev1.Node {
	out := &corev1.Node{ObjectMeta: keepMeta(&n.ObjectMeta)}
	out.Spec.Unschedulable = n.Spec.Unschedulable
	for i := range n.Spec.Taints {
		out.Spec.Taints = append(out.Spec.Taints, *n.Spec.Taints[i].DeepCopy())
	}
	if strings.HasPrefix(n.Spec.ProviderID, capacity.KWOKProvider) {
		out.Spec.ProviderID = capacity.KWOKProvider
	}
	out.Status.Capacity, out.Status.Allocatable = n.Status.Capacity.DeepCopy(), n.Status.Allocatable.DeepCopy()
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		out.Status.Conditions = append(out.Status.Conditions, corev1.NodeCondition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime,
		})
	}
	return out
}

func keepPodDisruptionBudget(b *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	out := &policyv1.PodDisruptionBudget{ObjectMeta: keepMeta(&b.ObjectMeta)}
	out.Spec = policyv1.PodDisruptionBudgetSpec{
		Selector: b.Spec.Selector.DeepCopy(), MinAvailable: copyOf(b.Spec.MinAvailable), MaxUnavailable: copyOf(b.Spec.MaxUnavailable),
		UnhealthyPodEvictionPolicy: copyOf(b.Spec.UnhealthyPodEvictionPolicy),
	}
	out.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: b.Status.ObservedGeneration, DisruptionsAllowed: b.Status.DisruptionsAllowed,
		CurrentHealthy: b.Status.CurrentHealthy, DesiredHealthy: b.Status.DesiredHealthy, ExpectedPods: b.Status.ExpectedPods,
	}
	return out
}

// copyOf returns a pointer to a copy of a value without pointers.
func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	out := *p
	return &out
}
