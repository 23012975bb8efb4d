// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"hash/maphash"
	"maps"
	"strings"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/kube/pods"
)

// leanMessage bounds the message of a condition, in bytes. An overview shows fewer.
const leanMessage = 1024

// Lean replaces a pod, a node or a workload controller, as a cache keeps it, by one that has only what an overview reads: a state makes the
// same of it, except the local data of a pod. Other objects lose who wrote their fields. The argument is not used
// afterwards.
func Lean(o any) (any, error) {
	switch o := o.(type) {
	case *corev1.Pod:
		return leanPod(o), nil
	case *corev1.Node:
		o.Status.Images, o.Status.VolumesInUse, o.Status.VolumesAttached, o.ManagedFields = nil, nil, nil, nil
		for i := range o.Status.Conditions {
			o.Status.Conditions[i].LastHeartbeatTime = metav1.Time{} // it changes when nothing else does
		}
		return o, nil
	case *appsv1.ReplicaSet:
		o.ObjectMeta, o.Spec.Template = leanMeta(o), leanTemplate(&o.Spec.Template)
		return o, nil
	case *appsv1.Deployment:
		o.ObjectMeta, o.Spec.Template = leanMeta(o), leanTemplate(&o.Spec.Template)
		return o, nil
	case *appsv1.StatefulSet:
		o.ObjectMeta, o.Spec.Template, o.Spec.VolumeClaimTemplates = leanMeta(o), leanTemplate(&o.Spec.Template), nil
		return o, nil
	case *batchv1.Job:
		o.ObjectMeta, o.Spec.Template = leanMeta(o), leanTemplate(&o.Spec.Template)
		return o, nil
	case metav1.Object:
		o.SetManagedFields(nil)
	}
	return o, nil
}

func leanPod(o *corev1.Pod) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, CreationTimestamp: o.CreationTimestamp,
		DeletionTimestamp: o.DeletionTimestamp, Labels: leanLabels(o.Labels), Annotations: keptAnnotations(o.Annotations),
	}}
	if ref := metav1.GetControllerOf(o); ref != nil {
		p.OwnerReferences = []metav1.OwnerReference{*ref}
	}
	if pods.Leaves(o) {
		p.OwnerReferences = o.OwnerReferences
	}
	if slotByOthers(o) || CostByOthers(o) { // few
		p.ManagedFields = o.ManagedFields
	}
	s := &o.Spec
	p.Spec = corev1.PodSpec{
		NodeName: s.NodeName, SchedulerName: s.SchedulerName, NodeSelector: s.NodeSelector, SchedulingGates: s.SchedulingGates,
		SchedulingGroup: s.SchedulingGroup, RestartPolicy: s.RestartPolicy, ActiveDeadlineSeconds: s.ActiveDeadlineSeconds,
	}
	if s.Affinity != nil && s.Affinity.NodeAffinity != nil {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: s.Affinity.NodeAffinity}
	}
	p.Spec.Resources = leanRequirements(requests(o)) // those of the containers in one
	p.Status.Phase = o.Status.Phase
	for i := range o.Status.Conditions {
		if c := o.Status.Conditions[i]; c.Type == corev1.PodReady || c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
			c.Message = strings.Clone(c.Message[:min(len(c.Message), leanMessage)])
			p.Status.Conditions = append(p.Status.Conditions, c)
		}
	}
	return p
}

// requirements are of pods with the same requests.
type requirements struct {
	cpu, memory int64
	of          corev1.ResourceRequirements
}

// shared are requirements that were made last: the pods of a workload have the same. A map of two quantities takes 740 bytes.
var shared [1024]atomic.Pointer[requirements]

// leanRequirements are the requirements of a pod that requests so much, nil for nothing. They must not be changed.
func leanRequirements(cpu, memory int64) *corev1.ResourceRequirements {
	if cpu == 0 && memory == 0 {
		return nil
	}
	at := &shared[(uint64(cpu)*31+uint64(memory>>20))%uint64(len(shared))] //nolint:gosec // any place will do
	if r := at.Load(); r != nil && r.cpu == cpu && r.memory == memory {
		return &r.of
	}
	r := &requirements{cpu: cpu, memory: memory, of: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(cpu, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
	}}}
	at.Store(r)
	return &r.of
}

// mostShared bounds the labels of pods that share them, and so what sharedLabels keeps of pods that are gone.
const mostShared = 16

// sharedLabels are labels that were read last: the pods of a revision have the same, which take half a kilobyte.
var (
	sharedLabels [1024]atomic.Pointer[map[string]string]
	labelSeed    = maphash.MakeSeed()
)

// leanLabels are labels that are equal to others, of which pods of a workload share one map. They must not be changed.
func leanLabels(labels map[string]string) map[string]string {
	if len(labels) == 0 || len(labels) > mostShared {
		return labels
	}
	var sum uint64 // in any order
	for k, v := range labels {
		sum += maphash.String(labelSeed, k)*31 + maphash.String(labelSeed, v)
	}
	at := &sharedLabels[sum%uint64(len(sharedLabels))]
	if same := at.Load(); same != nil && maps.Equal(*same, labels) {
		return *same
	}
	at.Store(&labels)
	return labels
}

// leanMeta is the metadata of a workload controller that Strip keeps, and what a cache requires.
func leanMeta(o metav1.Object) metav1.ObjectMeta {
	m := stripMeta(o)
	m.ResourceVersion, m.CreationTimestamp, m.DeletionTimestamp = o.GetResourceVersion(), o.GetCreationTimestamp(), o.GetDeletionTimestamp()
	return m
}

func leanTemplate(t *corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: t.Spec.NodeName}}
}
