// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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

// liftQuota lifts the limit, and changes the owners of pods: one whose pods were refused tries again only after minutes otherwise.
func (r *runner) liftQuota(name string) {
	r.remove(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}})
	change := fmt.Appendf(nil, `{"metadata":{"annotations":{"test.berth.dev/lifted":%q}}}`, time.Now())
	for _, list := range []client.ObjectList{&appsv1.ReplicaSetList{}, &appsv1.StatefulSetList{}, &batchv1.JobList{}} {
		r.attempt("list owners", func(ctx context.Context) error { return r.Client.List(ctx, list, client.InNamespace(r.Namespace)) })
		_ = meta.EachListItem(list, func(o runtime.Object) error { // the function has no error
			owner := o.(client.Object)
			r.attempt("change "+owner.GetName(), func(ctx context.Context) error {
				return r.Client.Patch(ctx, owner, client.RawPatch(types.MergePatchType, change))
			})
			return nil
		})
	}
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
