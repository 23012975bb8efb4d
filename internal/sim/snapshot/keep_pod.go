// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/kube/pods"
)

// image is in the place of the name of each image: pods without one are invalid.
const image = "image"

func keepPod(p *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: keepMeta(&p.ObjectMeta), Spec: keepPodSpec(&p.Spec)}
	out.Status.Phase, out.Status.NominatedNodeName = p.Status.Phase, p.Status.NominatedNodeName
	out.Status.StartTime = p.Status.StartTime.DeepCopy()
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; keptCondition(c) {
			out.Status.Conditions = append(out.Status.Conditions, corev1.PodCondition{
				Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime,
			})
		}
	}
	resized := pods.Resized(p)
	out.Status.ContainerStatuses = keepStatuses(p.Status.ContainerStatuses, resized)
	out.Status.InitContainerStatuses = keepStatuses(p.Status.InitContainerStatuses, resized)
	if resized {
		out.Status.Resources, out.Status.AllocatedResources = keepResources(p.Status.Resources), p.Status.AllocatedResources.DeepCopy()
	}
	return out
}

// keptCondition reports whether decisions depend on a condition. That a pod was scheduled is in the name of its node.
func keptCondition(c *corev1.PodCondition) bool {
	switch c.Type { //nolint:exhaustive // of all others, no decision depends
	case corev1.PodReady, corev1.DisruptionTarget, corev1.PodResizePending, corev1.PodResizeInProgress:
		return true
	case corev1.PodScheduled:
		return c.Status != corev1.ConditionTrue
	}
	return false
}

// keepStatuses keeps restarts, and resources that differ from those of the spec: mostly nothing.
func keepStatuses(all []corev1.ContainerStatus, resized bool) (kept []corev1.ContainerStatus) {
	for i := range all {
		s := &all[i]
		if s.RestartCount == 0 && !resized {
			continue
		}
		out := corev1.ContainerStatus{Name: s.Name, RestartCount: s.RestartCount}
		if resized {
			out.Resources, out.AllocatedResources = keepResources(s.Resources), s.AllocatedResources.DeepCopy()
		}
		kept = append(kept, out)
	}
	return kept
}

func keepTemplate(t *corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	meta := keepMeta(&t.ObjectMeta)
	out := corev1.PodTemplateSpec{Spec: keepPodSpec(&t.Spec)}
	out.Labels, out.Annotations = meta.Labels, meta.Annotations
	return out
}

// keepPodSpec keeps what decides where a pod runs, what it takes there, and how it ends.
func keepPodSpec(s *corev1.PodSpec) corev1.PodSpec {
	copied := corev1.PodSpec{
		NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations,
		TopologySpreadConstraints: s.TopologySpreadConstraints,
		Overhead:                  s.Overhead, Priority: s.Priority, PreemptionPolicy: s.PreemptionPolicy,
		TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds, ActiveDeadlineSeconds: s.ActiveDeadlineSeconds,
	}
	out := *copied.DeepCopy()
	out.NodeName, out.SchedulerName, out.PriorityClassName = s.NodeName, s.SchedulerName, s.PriorityClassName
	out.HostNetwork, out.RestartPolicy, out.Resources = s.HostNetwork, s.RestartPolicy, keepResources(s.Resources)
	out.Containers, out.InitContainers = keepContainers(s.Containers), keepContainers(s.InitContainers)
	out.Volumes = keepVolumes(s.Volumes)
	for _, g := range s.SchedulingGates {
		out.SchedulingGates = append(out.SchedulingGates, corev1.PodSchedulingGate{Name: g.Name})
	}
	for _, g := range s.ReadinessGates {
		out.ReadinessGates = append(out.ReadinessGates, corev1.PodReadinessGate{ConditionType: g.ConditionType})
	}
	for _, c := range s.ResourceClaims {
		out.ResourceClaims = append(out.ResourceClaims, corev1.PodResourceClaim{
			Name: c.Name, ResourceClaimName: copyOf(c.ResourceClaimName), ResourceClaimTemplateName: copyOf(c.ResourceClaimTemplateName),
		})
	}
	if g := s.SchedulingGroup; g != nil {
		out.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: copyOf(g.PodGroupName)}
	}
	for _, r := range s.EvictionResponders {
		out.EvictionResponders = append(out.EvictionResponders, corev1.EvictionResponder{Name: r.Name, Priority: copyOf(r.Priority)})
	}
	return out
}

// keepContainers keeps resources and the ports of the node: no decision reads the image, the environment, the command or the probes.
func keepContainers(all []corev1.Container) (kept []corev1.Container) {
	for i := range all {
		c := &all[i]
		out := corev1.Container{Name: c.Name, Image: image, Resources: *keepResources(&c.Resources), RestartPolicy: copyOf(c.RestartPolicy)}
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				out.Ports = append(out.Ports, corev1.ContainerPort{HostPort: p.HostPort, HostIP: p.HostIP, Protocol: p.Protocol})
			}
		}
		kept = append(kept, out)
	}
	return kept
}

func keepResources(r *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if r == nil {
		return nil
	}
	out := &corev1.ResourceRequirements{Limits: r.Limits.DeepCopy(), Requests: r.Requests.DeepCopy()}
	for _, c := range r.Claims {
		out.Claims = append(out.Claims, corev1.ResourceClaim{Name: c.Name, Request: c.Request})
	}
	return out
}

// keepVolumes keeps claims, and that data is local to the node: no path, no attribute, and no volume of another kind.
func keepVolumes(all []corev1.Volume) (kept []corev1.Volume) {
	for i := range all {
		v, out := &all[i], corev1.Volume{Name: all[i].Name}
		switch {
		case v.PersistentVolumeClaim != nil:
			out.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{
				ClaimName: v.PersistentVolumeClaim.ClaimName, ReadOnly: v.PersistentVolumeClaim.ReadOnly,
			}
		case v.Ephemeral != nil:
			out.Ephemeral = &corev1.EphemeralVolumeSource{}
		case v.EmptyDir != nil:
			out.EmptyDir = &corev1.EmptyDirVolumeSource{Medium: v.EmptyDir.Medium}
		case v.HostPath != nil:
			out.HostPath = &corev1.HostPathVolumeSource{}
		case v.CSI != nil:
			out.CSI = &corev1.CSIVolumeSource{Driver: v.CSI.Driver}
		default:
			continue
		}
		kept = append(kept, out)
	}
	return kept
}
