// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
)

func podOf(component, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.Name, p.UID = "run", name, types.UID("uid-of-"+name)
	p.Labels = map[string]string{v1alpha1.EnvironmentLabel: "shop-1", v1alpha1.EnvironmentComponentLabel: component}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "nginx"}}
	p.Status.PodIP = "10.1.2.3"
	for _, c := range change {
		c(p)
	}
	return p
}

func TestStatusOfAContainer(t *testing.T) {
	const (
		pending    = schedulerv1.ContainerStatus_CONTAINER_STATUS_PENDING
		pulling    = schedulerv1.ContainerStatus_CONTAINER_STATUS_PULLING
		running    = schedulerv1.ContainerStatus_CONTAINER_STATUS_RUNNING
		stopping   = schedulerv1.ContainerStatus_CONTAINER_STATUS_STOPPING
		stopped    = schedulerv1.ContainerStatus_CONTAINER_STATUS_STOPPED
		failed     = schedulerv1.ContainerStatus_CONTAINER_STATUS_FAILED
		restarting = schedulerv1.ContainerStatus_CONTAINER_STATUS_RESTARTING
	)
	in := func(s corev1.ContainerState, restarts int32) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "other"}, {Name: "main", State: s, RestartCount: restarts}}
		}
	}
	waiting := func(reason string, restarts int32) func(*corev1.Pod) {
		return in(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}, restarts)
	}
	ended := func(code int32) func(*corev1.Pod) {
		return in(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}, 0)
	}
	runs := in(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, 3)
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase = phase }
	}
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	gated := func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.StageGate}} }

	for name, tc := range map[string]struct {
		want schedulerv1.ContainerStatus
		pod  *corev1.Pod
	}{
		"gated":                        {pending, podOf("backend", "p", gated, phase(corev1.PodPending))},
		"not scheduled":                {pending, podOf("backend", "p", phase(corev1.PodPending))},
		"no status":                    {pending, podOf("backend", "p", in(corev1.ContainerState{}, 0))},
		"waits for others to be ready": {pending, podOf("backend", "p", waiting("PodInitializing", 0))},
		"being made":                   {pulling, podOf("backend", "p", waiting("ContainerCreating", 0))},
		"no such image":                {failed, podOf("backend", "p", waiting("ErrImagePull", 0))},
		"no such image for a while":    {failed, podOf("backend", "p", waiting("ImagePullBackOff", 0))},
		"no image at all":              {failed, podOf("backend", "p", waiting("InvalidImageName", 0))},
		"cannot be made":               {failed, podOf("backend", "p", waiting("CreateContainerError", 0))},
		"no such Secret":               {failed, podOf("backend", "p", waiting("CreateContainerConfigError", 2))},
		"running":                      {running, podOf("backend", "p", runs)},
		"deleted":                      {stopping, podOf("backend", "p", runs, deleted)},
		"deleted before it ran":        {stopping, podOf("backend", "p", deleted)},
		"ended well":                   {stopped, podOf("backend", "p", ended(0))},
		"ended badly":                  {failed, podOf("backend", "p", ended(137))},
		"evicted":                      {failed, podOf("backend", "p", phase(corev1.PodFailed))},
		"succeeded":                    {stopped, podOf("backend", "p", phase(corev1.PodSucceeded))},
		"crashes":                      {restarting, podOf("backend", "p", waiting("CrashLoopBackOff", 0))},
		"being made again":             {restarting, podOf("backend", "p", waiting("ContainerCreating", 1))},
	} {
		t.Run(name, func(t *testing.T) {
			list := instances(&environment{}, []corev1.Pod{*tc.pod})
			require.Len(t, list, 1)
			assert.Equal(t, tc.want, list[0].state())
		})
	}
}

func TestInstancesAreInTheOrderOfTheirStart(t *testing.T) {
	e := &environment{}
	e.Spec.Stack = v1alpha1.ApplicationStack{
		Frontend: &v1alpha1.FrontendComponent{}, Backend: &v1alpha1.BackendComponent{}, Database: &v1alpha1.DatabaseComponent{},
		AdditionalServices: []v1alpha1.AdditionalService{{Name: "redis"}},
	}
	e.Status.Ports = []v1alpha1.AllocatedPort{{Component: "frontend", ContainerPort: 80, HostPort: 30080, Protocol: "TCP"}}
	at := metav1.NewTime(time.Unix(50, 0))
	front := podOf("frontend", "f", func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "main", ContainerID: "containerd://abc", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
		}}
	})
	front.Spec.Containers = append(front.Spec.Containers, corev1.Container{Name: "sidecar", Image: "envoy"})
	none := podOf("", "backup")
	var got []string
	list := instances(e, []corev1.Pod{*front, *podOf("gone", "g"), *podOf("backend", "b2"), *none, *podOf("redis", "r"), *podOf("backend", "b1"), *podOf("database", "d")})
	for i := range list {
		got = append(got, list[i].pod.Name+"/"+list[i].container.Name)
	}
	assert.Equal(t, []string{"d/main", "r/main", "b1/main", "b2/main", "f/main", "f/sidecar", "g/main"}, got)

	first, last := list[0].toWire(e.Status.Ports), list[4].toWire(e.Status.Ports)
	assert.Equal(t, "uid-of-d/main", first.GetId())
	assert.Empty(t, first.GetExposedPorts())
	assert.Nil(t, first.GetStartedAt())
	assert.Equal(t, "containerd://abc", last.GetId())
	assert.Equal(t, "frontend", last.GetName())
	assert.Equal(t, "nginx", last.GetImage())
	assert.Equal(t, "10.1.2.3", last.GetIpAddress())
	assert.Equal(t, at.UTC(), last.GetStartedAt().AsTime())
	require.Len(t, last.GetExposedPorts(), 1)
	assert.EqualValues(t, 30080, last.GetExposedPorts()[0].GetHostPort())
	assert.Equal(t, "tcp", last.GetExposedPorts()[0].GetProtocol())
}
