// SPDX-License-Identifier: Apache-2.0

package defaulting

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresource "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/registry"
)

// drawQuantity is from 1 to 4000 of a unit that suits the resource.
func drawQuantity(t *rapid.T, name corev1.ResourceName, label string) resource.Quantity {
	n := int64(rapid.IntRange(1, 4000).Draw(t, label))
	if name == corev1.ResourceCPU {
		return *resource.NewMilliQuantity(n, resource.DecimalSI)
	}
	return *resource.NewQuantity(n<<20, resource.BinarySI)
}

// drawPair is a request and a limit that is not below it, nil for those that are not set.
func drawPair(t *rapid.T, name corev1.ResourceName, label string) (request, limit *resource.Quantity) {
	low, high := drawQuantity(t, name, label), drawQuantity(t, name, label)
	if low.Cmp(high) > 0 {
		low, high = high, low
	}
	if rapid.Bool().Draw(t, label+" requests") {
		request = &low
	}
	if rapid.Bool().Draw(t, label+" limits") {
		limit = &high
	}
	return request, limit
}

func drawRequirements(t *rapid.T, label string) (r corev1.ResourceRequirements) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		request, limit := drawPair(t, name, label)
		if request != nil {
			r.Requests = with(r.Requests, name, *request)
		}
		if limit != nil {
			r.Limits = with(r.Limits, name, *limit)
		}
	}
	return r
}

func drawLimit(t *rapid.T) *v1alpha1.ResourceLimit {
	l := &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "size", Generation: 1}}
	l.Spec.CPU, l.Spec.CPULimit = drawPair(t, corev1.ResourceCPU, "size")
	l.Spec.Memory, l.Spec.MemoryLimit = drawPair(t, corev1.ResourceMemory, "size")
	l.Spec.EphemeralStorage, _ = drawPair(t, corev1.ResourceEphemeralStorage, "size")
	l.Spec.Volumes = rapid.MapOfN(rapid.SampledFrom([]string{"data", "cache", "logs"}), rapid.Custom(func(t *rapid.T) v1alpha1.VolumeLimit {
		return v1alpha1.VolumeLimit{
			Size:      drawQuantity(t, corev1.ResourceStorage, "volume size"),
			MountPath: rapid.SampledFrom([]string{"", "/data", "/data/", "/x"}).Draw(t, "mount path"),
		}
	}), 0, 3).Draw(t, "volumes")
	l.Spec.NodeSelector = rapid.MapOfN(rapid.SampledFrom([]string{"disk", "zone"}), rapid.SampledFrom([]string{"a", "b"}), 0, 2).Draw(t, "selector")
	return l
}

// drawPod is a pod that the API server accepts.
func drawPod(t *rapid.T) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pod"}}
	for i := range rapid.IntRange(1, 3).Draw(t, "containers") {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: fmt.Sprintf("c%d", i), Image: "image", Resources: drawRequirements(t, "container"),
		})
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "init containers") {
		c := corev1.Container{Name: fmt.Sprintf("i%d", i), Image: "image", Resources: drawRequirements(t, "init container")}
		if rapid.Bool().Draw(t, "sidecar") {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	if rapid.IntRange(0, 2).Draw(t, "sets resources as a whole") == 0 {
		pod.Spec.Resources = new(drawRequirements(t, "pod"))
		delete(pod.Spec.Resources.Requests, corev1.ResourceEphemeralStorage) // not supported there
		delete(pod.Spec.Resources.Limits, corev1.ResourceEphemeralStorage)
	}
	if rapid.Bool().Draw(t, "names its main container") {
		pod.Annotations = map[string]string{DefaultContainerAnnotation: rapid.SampledFrom([]string{"c0", "c1", "c2"}).Draw(t, "main")}
	}
	if rapid.Bool().Draw(t, "has a volume") {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}
	if rapid.Bool().Draw(t, "has a node selector") {
		pod.Spec.NodeSelector = map[string]string{"disk": "a"}
	}
	return pod
}

// refusal is the API server's error for a pod.
func refusal(t *rapid.T, pod *corev1.Pod) string {
	pod = pod.DeepCopy()
	corev1conversion.SetObjectDefaults_Pod(pod)
	internal := &core.Pod{}
	require.NoError(t, corev1conversion.Convert_v1_Pod_To_core_Pod(pod, internal, nil))
	if errs := validation.ValidatePodCreate(internal, validation.PodValidationOptions{PodLevelResourcesEnabled: true}); len(errs) > 0 {
		return errs.ToAggregate().Error()
	}
	return ""
}

func TestAPodThatSetsNothingHasExactlyTheFigures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, pod := drawLimit(t), drawPod(t)
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Resources = corev1.ResourceRequirements{}
		}
		pod.Spec.InitContainers, pod.Spec.Resources = nil, nil
		Apply(pod, limit)
		requests := podresource.PodRequests(pod, podresource.PodResourcesOptions{})
		effective := podresource.PodLimits(pod, podresource.PodResourcesOptions{})
		for _, f := range figures(&limit.Spec) {
			for what, want := range map[*resource.Quantity]corev1.ResourceList{f.request: requests, f.limit: effective} {
				if what == nil {
					continue
				}
				got := want[f.name]
				require.Zero(t, got.Cmp(*what), "%s: %s, not %s", f.name, got.String(), what)
			}
		}
		require.Empty(t, registry.Compile(limit).Exceeded(pod), "what was filled in is within the bound")
	})
}

func TestFieldsThatAPodSetsStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, pod := drawLimit(t), drawPod(t)
		before := pod.DeepCopy()
		Apply(pod, limit)
		require.Equal(t, before.Spec.InitContainers, pod.Spec.InitContainers)
		require.Equal(t, before.Spec.Resources, pod.Spec.Resources)
		require.True(t, equality.Semantic.DeepEqual(before.Spec.Volumes, pod.Spec.Volumes[:len(before.Spec.Volumes)]))
		require.Subset(t, pod.Spec.NodeSelector, before.Spec.NodeSelector)
		for i := range before.Spec.Containers {
			old, now := &before.Spec.Containers[i], &pod.Spec.Containers[i]
			if i != mainContainer(before) {
				require.Equal(t, old, now)
			}
			require.True(t, equality.Semantic.DeepEqual(old.VolumeMounts, now.VolumeMounts[:len(old.VolumeMounts)]))
			for name, q := range old.Resources.Requests {
				require.Equal(t, q, now.Resources.Requests[name])
			}
			for name, q := range old.Resources.Limits {
				require.Equal(t, q, now.Resources.Limits[name])
			}
		}
	})
}

func TestApplyIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, pod := drawLimit(t), drawPod(t)
		Apply(pod, limit)
		once := pod.DeepCopy()
		require.Empty(t, Apply(pod, limit))
		require.True(t, equality.Semantic.DeepEqual(once, pod))
		// What is filled in counts as the pod's own: the same even without the annotation.
		delete(pod.Annotations, v1alpha1.ResolvedLimitAnnotation)
		Apply(pod, limit)
		require.Equal(t, once.Spec.Containers, pod.Spec.Containers)
		require.Equal(t, once.Spec.NodeSelector, pod.Spec.NodeSelector)
	})
}

func TestAnAcceptedPodStaysAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, pod := drawLimit(t), drawPod(t)
		if refusal(t, pod) != "" {
			t.Skip("refused as it was")
		}
		if rapid.Bool().Draw(t, "as the webhook sees it") {
			corev1conversion.SetObjectDefaults_Pod(pod)
		}
		Apply(pod, limit)
		require.Empty(t, refusal(t, pod))
	})
}
