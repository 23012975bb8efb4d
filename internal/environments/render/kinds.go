// SPDX-License-Identifier: Apache-2.0

package render

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/apis/v1alpha1"
)

// Kinds are the kinds of what Render returns, an empty object of each, but for those of OptionalKinds.
func Kinds() []runtime.Object {
	return []runtime.Object{
		&appsv1.Deployment{}, &appsv1.StatefulSet{}, &batchv1.Job{}, &corev1.Service{}, &corev1.PersistentVolumeClaim{}, &corev1.Secret{},
		&networkingv1.Ingress{}, &networkingv1.NetworkPolicy{}, &corev1.ResourceQuota{}, &corev1.LimitRange{},
		&policyv1.PodDisruptionBudget{}, &autoscalingv2.HorizontalPodAutoscaler{}, &v1alpha1.CapacityMix{}, &v1alpha1.ResourceLimit{},
	}
}

// OptionalKinds are the kinds of what Render may return that a cluster serves only if their CRDs are installed.
func OptionalKinds() []runtime.Object {
	route := &unstructured.Unstructured{}
	route.SetGroupVersionKind(RouteKind)
	return []runtime.Object{route}
}
