// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	kubepods "berth.dev/berth/internal/kube/pods"
)

// Filtered returns the fields of a scheduled pod that NodeInfo counts and filters read, encoded, without those that a
// clusterstate.Pod has: its labels, namespace, name and UID. It is the same for replicas of one template. Pods whose claims
// are named after them also have their name and UID in it.
func Filtered(p *corev1.Pod) []byte {
	out := stripPod(p)
	if p.Spec.NodeName == "" {
		out.Status.NominatedNodeName = p.Status.NominatedNodeName
	}
	if hasOwnClaims(p) {
		out.Name, out.UID = p.Name, p.UID
	}
	encoded, err := out.Marshal()
	if err != nil {
		return nil // it does not fail for what was decoded
	}
	return encoded
}

// infoOf ignores terms that cannot be parsed: they match nothing, for the scheduler too.
func infoOf(p *corev1.Pod) fwk.PodInfo {
	info, _ := framework.NewPodInfo(p)
	return info
}

// terminating replaces every deletion timestamp: filters only check whether there is one.
var terminating = &metav1.Time{}

// stripPod keeps what filters read of a pod that has its node. They do not read where it may run (its nodeSelector, node affinity,
// tolerations and spread constraints): those of a DaemonSet name the node, and no two of its pods would be alike.
func stripPod(p *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{
		Spec: corev1.PodSpec{
			SchedulerName: p.Spec.SchedulerName, HostNetwork: p.Spec.HostNetwork,
			Priority: p.Spec.Priority, Overhead: p.Spec.Overhead, Resources: p.Spec.Resources,
			ResourceClaims: p.Spec.ResourceClaims,
			Containers:     stripContainers(p.Spec.Containers), InitContainers: stripContainers(p.Spec.InitContainers),
			Volumes: stripVolumes(p.Spec.Volumes),
		},
	}
	if a := p.Spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
		out.Spec.Affinity = &corev1.Affinity{PodAffinity: a.PodAffinity, PodAntiAffinity: a.PodAntiAffinity}
	}
	if p.DeletionTimestamp != nil {
		out.DeletionTimestamp = terminating
	}
	if kubepods.Resized(p) {
		out.Status.Conditions = p.Status.Conditions
		out.Status.ContainerStatuses = stripStatuses(p.Status.ContainerStatuses)
		out.Status.InitContainerStatuses = stripStatuses(p.Status.InitContainerStatuses)
		out.Status.Resources, out.Status.AllocatedResources = p.Status.Resources, p.Status.AllocatedResources
	}
	return out
}

func stripContainers(containers []corev1.Container) []corev1.Container {
	if len(containers) == 0 {
		return nil
	}
	out := make([]corev1.Container, len(containers))
	for i := range containers {
		c := &containers[i]
		out[i] = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
		for _, port := range c.Ports {
			if port.HostPort > 0 {
				out[i].Ports = append(out[i].Ports, port)
			}
		}
	}
	return out
}

// stripVolumes drops the volumes that no filter reads. One of them is the service account's token, whose name differs
// from pod to pod.
func stripVolumes(volumes []corev1.Volume) []corev1.Volume {
	var out []corev1.Volume
	for _, v := range volumes {
		if v.Projected == nil && v.Secret == nil && v.ConfigMap == nil && v.EmptyDir == nil && v.DownwardAPI == nil && v.HostPath == nil {
			out = append(out, v)
		}
	}
	return out
}

func stripStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	out := make([]corev1.ContainerStatus, len(statuses))
	for i := range statuses {
		s := &statuses[i]
		out[i] = corev1.ContainerStatus{Name: s.Name, Resources: s.Resources, AllocatedResources: s.AllocatedResources}
	}
	return out
}

// stripNode drops large fields that neither a filter nor Question.Nodes reads.
func stripNode(n *corev1.Node) *corev1.Node {
	out := &corev1.Node{ObjectMeta: n.ObjectMeta, Spec: n.Spec}
	out.Status.Capacity, out.Status.Allocatable = n.Status.Capacity, n.Status.Allocatable
	out.Status.Phase, out.Status.Conditions = n.Status.Phase, n.Status.Conditions
	out.Status.RuntimeHandlers, out.Status.Features = n.Status.RuntimeHandlers, n.Status.Features
	out.Status.DeclaredFeatures = n.Status.DeclaredFeatures
	stripMeta(out)
	return out
}

// stripObject does the same for the kinds that plugins list.
func stripObject(object any) (any, error) {
	if o, err := meta.Accessor(object); err == nil {
		stripMeta(o)
	}
	switch o := object.(type) {
	case *appsv1.ReplicaSet:
		o.Spec.Template, o.Status = corev1.PodTemplateSpec{}, appsv1.ReplicaSetStatus{}
	case *appsv1.StatefulSet:
		o.Spec = appsv1.StatefulSetSpec{Selector: o.Spec.Selector}
		o.Status = appsv1.StatefulSetStatus{}
	case *corev1.ReplicationController:
		o.Spec.Template, o.Status = nil, corev1.ReplicationControllerStatus{}
	case *corev1.Service:
		o.Spec, o.Status = corev1.ServiceSpec{Selector: o.Spec.Selector}, corev1.ServiceStatus{}
	}
	return object, nil
}

func stripMeta(o metav1.Object) {
	o.SetManagedFields(nil)
	if annotations := o.GetAnnotations(); annotations != nil {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
	}
}
