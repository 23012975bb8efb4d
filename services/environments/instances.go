// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

// instance is a container of a pod of a component.
type instance struct {
	component string
	pod       *corev1.Pod
	container *corev1.Container
	status    *corev1.ContainerStatus // nil if the kubelet has not reported yet
}

// instances are the containers of an environment's pods, in the order in which components start. Pods of no component are
// not part of it.
func instances(e *environment, pods []corev1.Pod) []instance {
	place := map[string]int{}
	for i, c := range stack.Components(&e.Spec.Stack) {
		place[c.Name] = i
	}
	var out []instance
	for i := range pods {
		pod := &pods[i]
		component := pod.Labels[v1alpha1.EnvironmentComponentLabel]
		if component == "" {
			continue
		}
		for j := range pod.Spec.Containers {
			c := &pod.Spec.Containers[j]
			out = append(out, instance{component: component, pod: pod, container: c, status: containerStatusOf(pod, c.Name)})
		}
	}
	// One that an update has taken away comes last while it ends.
	rank := func(i *instance) int {
		if n, ok := place[i.component]; ok {
			return n
		}
		return len(place)
	}
	slices.SortStableFunc(out, func(a, b instance) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(a.component, b.component), cmp.Compare(a.pod.Name, b.pod.Name))
	})
	return out
}

func containerStatusOf(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == name {
			return s
		}
	}
	return nil
}

// id is the container's id in answers: that of the runtime once there is one.
func (i *instance) id() string {
	if i.status != nil && i.status.ContainerID != "" {
		return i.status.ContainerID
	}
	return string(i.pod.UID) + "/" + i.container.Name
}

func (i *instance) toWire(ports []v1alpha1.AllocatedPort) *schedulerv1.ContainerInstance {
	out := &schedulerv1.ContainerInstance{
		Id: i.id(), Name: i.component, Image: i.container.Image, Status: i.state(), IpAddress: i.pod.Status.PodIP, StartedAt: i.startedAt(),
	}
	for _, p := range ports {
		if p.Component == i.component {
			out.ExposedPorts = append(out.ExposedPorts, portToWire(p.ContainerPort, p.HostPort, p.Protocol))
		}
	}
	return out
}

func (i *instance) startedAt() *timestamppb.Timestamp {
	switch {
	case i.status == nil:
		return nil
	case i.status.State.Running != nil:
		return timeToWire(&i.status.State.Running.StartedAt)
	case i.status.State.Terminated != nil:
		return timeToWire(&i.status.State.Terminated.StartedAt)
	}
	return nil
}

// broken are the reasons to wait that do not go away by waiting.
var broken = map[string]bool{
	"ErrImagePull": true, "ImagePullBackOff": true, "InvalidImageName": true, "ErrImageNeverPull": true,
	"RegistryUnavailable": true, "ImageInspectError": true, "SignatureValidationFailed": true,
	"CreateContainerError": true, "CreateContainerConfigError": true, "RunContainerError": true,
	"PreCreateHookError": true, "PreStartHookError": true, "PostStartHookError": true,
}

// state is how a container is.
func (i *instance) state() schedulerv1.ContainerStatus {
	switch {
	case i.pod.DeletionTimestamp != nil:
		return schedulerv1.ContainerStatus_CONTAINER_STATUS_STOPPING
	case i.status != nil && i.status.State.Running != nil:
		return schedulerv1.ContainerStatus_CONTAINER_STATUS_RUNNING
	case i.status != nil && i.status.State.Terminated != nil:
		return ended(i.status.State.Terminated.ExitCode == 0)
	case i.pod.Status.Phase == corev1.PodFailed, i.pod.Status.Phase == corev1.PodSucceeded:
		// An evicted pod has no containers that show how they ended.
		return ended(i.pod.Status.Phase == corev1.PodSucceeded)
	case i.status == nil || i.status.State.Waiting == nil:
		return schedulerv1.ContainerStatus_CONTAINER_STATUS_PENDING
	}
	return i.waiting(i.status.State.Waiting.Reason)
}

func ended(well bool) schedulerv1.ContainerStatus {
	if well {
		return schedulerv1.ContainerStatus_CONTAINER_STATUS_STOPPED
	}
	return schedulerv1.ContainerStatus_CONTAINER_STATUS_FAILED
}

// waiting is how a container is that waits for a reason. To the kubelet fetching an image is part of making the container.
func (i *instance) waiting(reason string) schedulerv1.ContainerStatus {
	switch {
	case broken[reason]:
		return schedulerv1.ContainerStatus_CONTAINER_STATUS_FAILED
	case reason == "CrashLoopBackOff", i.status.RestartCount > 0, i.status.LastTerminationState.Terminated != nil:
		return schedulerv1.ContainerStatus_CONTAINER_STATUS_RESTARTING
	case reason == "ContainerCreating", reason == "Pulling":
		return schedulerv1.ContainerStatus_CONTAINER_STATUS_PULLING
	}
	return schedulerv1.ContainerStatus_CONTAINER_STATUS_PENDING
}
