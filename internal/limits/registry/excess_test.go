// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/registry"
)

func quantity(s string) *resource.Quantity {
	if s == "" {
		return nil
	}
	return new(resource.MustParse(s))
}

func container(cpuRequest, cpuLimit string) corev1.Container {
	c := corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}}
	if cpuRequest != "" {
		c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpuRequest)
	}
	if cpuLimit != "" {
		c.Resources.Limits[corev1.ResourceCPU] = resource.MustParse(cpuLimit)
	}
	return c
}

func sidecar(cpuRequest string) corev1.Container {
	c := container(cpuRequest, "")
	c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	return c
}

func TestExcessIsWhatIsAboveALimit(t *testing.T) {
	t.Parallel()
	cpu2 := v1alpha1.ResourceLimitSpec{CPU: quantity("2")}
	cpuLimit3 := v1alpha1.ResourceLimitSpec{CPU: quantity("2"), CPULimit: quantity("3")}
	for name, tc := range map[string]struct {
		limit v1alpha1.ResourceLimitSpec
		pod   corev1.PodSpec
		want  string
	}{
		"as much as there is fits":                  {limit: cpu2, pod: corev1.PodSpec{Containers: []corev1.Container{container("1", ""), container("1000m", "")}}},
		"a pod that requests nothing fits":          {limit: cpu2, pod: corev1.PodSpec{Containers: []corev1.Container{{}}}},
		"all containers count together":             {limit: cpu2, pod: corev1.PodSpec{Containers: []corev1.Container{container("1", ""), container("1001m", "")}}, want: "cpu request 2001m is above 2"},
		"the limit's limit is the bound":            {limit: cpuLimit3, pod: corev1.PodSpec{Containers: []corev1.Container{container("3", "3")}}},
		"above the limit's limit":                   {limit: cpuLimit3, pod: corev1.PodSpec{Containers: []corev1.Container{container("2", "3500m")}}, want: "cpu limit 3500m is above 3"},
		"requests and limits are both reported":     {limit: cpu2, pod: corev1.PodSpec{Containers: []corev1.Container{container("3", "4")}}, want: "cpu request 3 is above 2, cpu limit 4 is above 2"},
		"an init container":                         {limit: cpu2, pod: corev1.PodSpec{InitContainers: []corev1.Container{container("5", "")}, Containers: []corev1.Container{container("1", "")}}, want: "cpu request 5 is above 2"},
		"an init container runs before":             {limit: cpu2, pod: corev1.PodSpec{InitContainers: []corev1.Container{container("2", "")}, Containers: []corev1.Container{container("2", "")}}},
		"a sidecar runs beside":                     {limit: cpu2, pod: corev1.PodSpec{InitContainers: []corev1.Container{sidecar("1")}, Containers: []corev1.Container{container("1500m", "")}}, want: "cpu request 2500m is above 2"},
		"the resources of the pod as a whole count": {limit: cpu2, pod: corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}}, Containers: []corev1.Container{container("1", "")}}, want: "cpu request 4 is above 2"},
		"the overhead is on top":                    {limit: cpu2, pod: corev1.PodSpec{Overhead: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}, Containers: []corev1.Container{container("2", "")}}, want: "cpu request 2250m is above 2"},
		"what the limit does not say is free":       {limit: v1alpha1.ResourceLimitSpec{Memory: quantity("1Gi")}, pod: corev1.PodSpec{Containers: []corev1.Container{container("100", "")}}},
		"memory and ephemeral storage as well": {
			limit: v1alpha1.ResourceLimitSpec{Memory: quantity("1Gi"), EphemeralStorage: quantity("2Gi")},
			pod: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceMemory: resource.MustParse("1025Mi"), corev1.ResourceEphemeralStorage: resource.MustParse("3G"),
			}}}}},
			want: "memory request 1025Mi is above 1Gi, ephemeral-storage request 3G is above 2Gi",
		},
		"no bound, no excess": {pod: corev1.PodSpec{Containers: []corev1.Container{container("100", "100")}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compiled := registry.Compile(&v1alpha1.ResourceLimit{Spec: tc.limit})
			assert.Equal(t, tc.want, registry.Describe(compiled.Exceeded(&corev1.Pod{Spec: tc.pod})))
		})
	}
}
