// SPDX-License-Identifier: Apache-2.0

package replay

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// stripper makes the copies of pods that a snapshot holds: what NodeInfo counts
// and filters read of a pod that has its node, and nothing else. Pods of one
// owner share what is equal, which is nearly all of it.
type stripper struct {
	siblings map[types.UID]*corev1.Pod
}

func newStripper() *stripper { return &stripper{siblings: map[types.UID]*corev1.Pod{}} }

func (s *stripper) pod(p *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: p.Namespace, UID: p.UID, Labels: p.Labels, DeletionTimestamp: p.DeletionTimestamp,
		},
		Spec: corev1.PodSpec{
			NodeName: p.Spec.NodeName, SchedulerName: p.Spec.SchedulerName, HostNetwork: p.Spec.HostNetwork,
			Priority: p.Spec.Priority, Overhead: p.Spec.Overhead, Resources: p.Spec.Resources,
			NodeSelector: p.Spec.NodeSelector, Affinity: p.Spec.Affinity, Tolerations: p.Spec.Tolerations,
			TopologySpreadConstraints: p.Spec.TopologySpreadConstraints, ResourceClaims: p.Spec.ResourceClaims,
			Containers: stripContainers(p.Spec.Containers), InitContainers: stripContainers(p.Spec.InitContainers),
			Volumes: stripVolumes(p.Spec.Volumes),
		},
		Status: corev1.PodStatus{Phase: p.Status.Phase, NominatedNodeName: p.Status.NominatedNodeName},
	}
	if resized(p) {
		out.Status.Conditions = p.Status.Conditions
		out.Status.ContainerStatuses = stripStatuses(p.Status.ContainerStatuses)
		out.Status.InitContainerStatuses = stripStatuses(p.Status.InitContainerStatuses)
	}
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		if sibling := s.siblings[owner.UID]; sibling != nil {
			share(out, sibling)
		}
		s.siblings[owner.UID] = out
	}
	return out
}

// share lets a pod use its sibling's copy of what is equal in both.
func share(p, sibling *corev1.Pod) {
	p.Namespace = sibling.Namespace
	shared(&p.Labels, sibling.Labels)
	to, from := &p.Spec, &sibling.Spec
	shared(&to.SchedulerName, from.SchedulerName)
	shared(&to.Priority, from.Priority)
	shared(&to.Overhead, from.Overhead)
	shared(&to.Resources, from.Resources)
	shared(&to.NodeSelector, from.NodeSelector)
	shared(&to.Affinity, from.Affinity)
	shared(&to.Tolerations, from.Tolerations)
	shared(&to.TopologySpreadConstraints, from.TopologySpreadConstraints)
	shared(&to.ResourceClaims, from.ResourceClaims)
	shared(&to.Containers, from.Containers)
	shared(&to.InitContainers, from.InitContainers)
	shared(&to.Volumes, from.Volumes)
}

func shared[T any](to *T, from T) {
	if equality.Semantic.DeepEqual(*to, from) {
		*to = from
	}
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

// stripVolumes leaves out the volumes that no filter looks at. The one with the
// service account's token is among them, and its name differs from pod to pod.
func stripVolumes(volumes []corev1.Volume) []corev1.Volume {
	var out []corev1.Volume
	for _, v := range volumes {
		if v.Projected == nil && v.Secret == nil && v.ConfigMap == nil && v.EmptyDir == nil && v.DownwardAPI == nil && v.HostPath == nil {
			out = append(out, v)
		}
	}
	return out
}

// resized reports whether a pod's status says other resources than its spec, as
// while it is resized in place: it then counts with the larger. The kubelet
// repeats the resources of every pod there, so mostly nothing needs to be kept.
func resized(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodResizePending {
			return true
		}
	}
	return differs(p.Spec.Containers, p.Status.ContainerStatuses) || differs(p.Spec.InitContainers, p.Status.InitContainerStatuses)
}

func differs(containers []corev1.Container, statuses []corev1.ContainerStatus) bool {
	for i := range statuses {
		s := &statuses[i]
		if s.Resources == nil {
			continue
		}
		for j := range containers {
			spec := containers[j].Resources.Requests
			if containers[j].Name != s.Name {
				continue
			}
			if !equality.Semantic.DeepEqual(spec, s.Resources.Requests) {
				return true
			}
			if len(s.AllocatedResources) > 0 && !equality.Semantic.DeepEqual(spec, s.AllocatedResources) {
				return true
			}
		}
	}
	return false
}

func stripStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	out := make([]corev1.ContainerStatus, len(statuses))
	for i := range statuses {
		s := &statuses[i]
		out[i] = corev1.ContainerStatus{Name: s.Name, Resources: s.Resources, AllocatedResources: s.AllocatedResources}
	}
	return out
}

// stripNode leaves out what is large and what neither a filter nor the question
// whether the node counts reads.
func stripNode(n *corev1.Node) *corev1.Node {
	out := &corev1.Node{ObjectMeta: n.ObjectMeta, Spec: n.Spec}
	out.Status.Capacity, out.Status.Allocatable = n.Status.Capacity, n.Status.Allocatable
	out.Status.Phase, out.Status.Conditions = n.Status.Phase, n.Status.Conditions
	out.Status.RuntimeHandlers, out.Status.Features = n.Status.RuntimeHandlers, n.Status.Features
	stripMeta(out)
	return out
}

// stripObject does the same for the kinds that plugins ask for.
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
