// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/robustness/plan"
)

// put creates an object of the traffic, unless an attempt before has, or the quota does not allow it.
func (r *runner) put(o client.Object) {
	r.T.Helper()
	o.SetNamespace(r.Namespace)
	r.attempt("create "+o.GetName(), func(ctx context.Context) error {
		err := r.Client.Create(ctx, o.DeepCopyObject().(client.Object))
		if apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) && r.disturbed[plan.Quota] != "" {
			return nil
		}
		return err
	})
}

// remove deletes an object of the traffic at once.
func (r *runner) remove(o client.Object) {
	r.T.Helper()
	o.SetNamespace(r.Namespace)
	r.attempt("delete "+o.GetName(), func(ctx context.Context) error { return r.Client.Delete(ctx, o, client.GracePeriodSeconds(0)) })
}

// quota limits the pods of the namespace: the controllers of the workloads create no more. Without a count the limit is lifted.
func (r *runner) quota(s *plan.Step) {
	if s.Count == 0 {
		r.undo(plan.Quota)
		return
	}
	const name = "pods"
	r.disturbed[plan.Quota] = name
	r.put(&corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse(strconv.Itoa(s.Count))}},
	})
}

// autoscale has an autoscaler whose bounds leave it one number: it needs no metrics, and undoes what the traffic scales.
func (r *runner) autoscale(s *plan.Step) {
	r.undo(s.Kind)
	r.disturbed[s.Kind] = s.Workload
	o := autoscaler(s.Workload)
	o.Spec.MinReplicas, o.Spec.MaxReplicas = &s.Replicas, s.Replicas
	r.put(o)
}

func autoscaler(workload string) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: workload},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
			APIVersion: appsv1.SchemeGroupVersion.String(), Kind: string(plan.Deployment), Name: workload,
		}},
	}
}

// priorityClass is that of the pods that preempt others.
func (r *runner) priorityClass() *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}, Value: 1000}
}

// preempt places a pod that needs all CPUs of a node, and removes the one before.
func (r *runner) preempt(s *plan.Step) {
	r.undo(s.Kind)
	name := "preempts-" + s.Node
	r.disturbed[s.Kind] = name
	r.put(builders.Pod("preempts", name, builders.CPU(nodeCPU), builders.OnNode(s.Node), builders.PriorityClass(r.Namespace)))
}
