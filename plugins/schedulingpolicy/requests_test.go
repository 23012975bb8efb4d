// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"berth.dev/berth/scheduler/upstream"
)

func drawRequests(t *rapid.T, name string) corev1.ResourceList {
	r := corev1.ResourceList{}
	if rapid.Bool().Draw(t, name+" has cpu") {
		r[corev1.ResourceCPU] = *resource.NewMilliQuantity(rapid.Int64Range(0, 5000).Draw(t, name+" cpu"), resource.DecimalSI)
	}
	if rapid.Bool().Draw(t, name+" has memory") {
		r[corev1.ResourceMemory] = *resource.NewQuantity(rapid.Int64Range(0, 1<<35).Draw(t, name+" memory"), resource.BinarySI)
	}
	return r
}

func drawContainers(t *rapid.T, name string) (list []corev1.Container) {
	for i := range rapid.IntRange(0, 3).Draw(t, name) {
		list = append(list, corev1.Container{Name: name + string(rune('a'+i)), Resources: corev1.ResourceRequirements{Requests: drawRequests(t, name)}})
	}
	return list
}

func TestRequestsAreThoseOfTheScheduler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawn := func(name string) bool { return rapid.IntRange(0, 3).Draw(t, name) == 0 }
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: drawContainers(t, "container")}}
		if drawn("init containers") {
			p.Spec.InitContainers = drawContainers(t, "init container")
			for i := range p.Spec.InitContainers {
				if rapid.Bool().Draw(t, "sidecar") {
					p.Spec.InitContainers[i].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
				}
			}
		}
		if drawn("overhead") {
			p.Spec.Overhead = drawRequests(t, "overhead")
		}
		if drawn("pod level") {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: drawRequests(t, "pod")}
		}
		if drawn("statuses") {
			for _, c := range p.Spec.Containers {
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
					Name: c.Name, AllocatedResources: drawRequests(t, "allocated"),
				})
			}
		}
		if drawn("pod status") {
			p.Status.Resources = &corev1.ResourceRequirements{Requests: drawRequests(t, "pod status")}
			p.Status.AllocatedResources = drawRequests(t, "pod allocated")
		}
		if drawn("resize") {
			reason := rapid.SampledFrom([]string{corev1.PodReasonInfeasible, corev1.PodReasonDeferred}).Draw(t, "reason")
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: reason}}
		}
		want := (&framework.PodInfo{Pod: p}).CalculateResource()
		cpu, memory := requestsOf(upstream.Admission{}, p)
		require.Equal(t, want.Non0CPU, cpu, "%+v", p)
		require.Equal(t, want.Non0Mem, memory, "%+v", p)
	})
}

func TestRequestsOfAPodCostNoMemory(t *testing.T) {
	x := pod("x", "", requests("250m", "1Gi"))
	x.Spec.Containers = append(x.Spec.Containers, corev1.Container{Name: "without"})
	require.Zero(t, testing.AllocsPerRun(100, func() { requestsOf(nil, x) }))
}
