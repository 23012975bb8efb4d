// SPDX-License-Identifier: Apache-2.0

package defaulting

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

func quantity(s string) *resource.Quantity { return new(resource.MustParse(s)) }

// list is a resource list of pairs of name and quantity.
func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func container(name string, requests, limits corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func podOf(containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: containers}}
}

func small() *v1alpha1.ResourceLimit {
	return &v1alpha1.ResourceLimit{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "small", Generation: 3},
		Spec: v1alpha1.ResourceLimitSpec{
			CPU: quantity("2"), Memory: quantity("4Gi"), MemoryLimit: quantity("6Gi"), EphemeralStorage: quantity("10Gi"),
		},
	}
}

func texts(l corev1.ResourceList) map[string]string {
	out := map[string]string{}
	for name, q := range l {
		out[string(name)] = q.String()
	}
	return out
}

func TestRequestsAndLimitsAreFilledIn(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	full := map[string]string{"cpu": "2", "memory": "4Gi", "ephemeral-storage": "10Gi"}
	for name, tc := range map[string]struct {
		pod                     *corev1.Pod
		wantRequests, wantLimit map[string]string // of the main container
		wantWarning             string
	}{
		"a pod without resources gets the limit's figures": {
			pod: podOf(container("main", nil, nil)), wantRequests: full, wantLimit: map[string]string{"cpu": "2", "memory": "6Gi"},
		},
		"the main container gets what the others leave": {
			pod:          podOf(container("main", nil, nil), container("log", list("cpu", "500m", "memory", "1Gi"), list("cpu", "1"))),
			wantRequests: map[string]string{"cpu": "1", "memory": "3Gi", "ephemeral-storage": "10Gi"}, // no more than its limit
			wantLimit:    map[string]string{"cpu": "1", "memory": "6Gi"},
		},
		"a sidecar and the overhead of the runtime count, an init container does not": {
			pod: &corev1.Pod{Spec: corev1.PodSpec{
				Overhead:   list("cpu", "100m"),
				Containers: []corev1.Container{container("main", nil, nil)},
				InitContainers: []corev1.Container{
					container("init", list("cpu", "1500m"), nil),
					{Name: "proxy", RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: list("cpu", "400m")}},
				},
			}},
			wantRequests: map[string]string{"cpu": "1500m", "memory": "4Gi", "ephemeral-storage": "10Gi"},
			wantLimit:    map[string]string{"cpu": "1900m", "memory": "6Gi"},
		},
		"others that take all leave a request of 0 and no limit": {
			pod:          podOf(container("main", nil, nil), container("big", list("cpu", "3"), list("cpu", "3"))),
			wantRequests: map[string]string{"cpu": "0", "memory": "4Gi", "ephemeral-storage": "10Gi"},
			wantLimit:    map[string]string{"memory": "6Gi"},
			wantWarning:  "spec.containers[0].resources.limits.cpu is left unset: of 2 the other containers leave 0",
		},
		"what the container sets stays": {
			pod:          podOf(container("main", list("cpu", "100m", "memory", "9Gi"), list("memory", "9Gi", "ephemeral-storage", "1Gi"))),
			wantRequests: map[string]string{"cpu": "100m", "memory": "9Gi", "ephemeral-storage": "1Gi"},
			wantLimit:    map[string]string{"cpu": "2", "memory": "9Gi", "ephemeral-storage": "1Gi"},
		},
		"a limit below the container's own request is left out": {
			pod:          podOf(container("main", list("cpu", "3"), nil)),
			wantRequests: map[string]string{"cpu": "3", "memory": "4Gi", "ephemeral-storage": "10Gi"},
			wantLimit:    map[string]string{"memory": "6Gi"},
			wantWarning:  "spec.containers[0].resources.limits.cpu is left unset: of 2 the other containers leave 2",
		},
		"what the pod sets as a whole stays, and nothing is filled in for it": {
			pod: &corev1.Pod{Spec: corev1.PodSpec{
				Resources:  &corev1.ResourceRequirements{Requests: list("cpu", "1"), Limits: list("memory", "1Gi")},
				Containers: []corev1.Container{container("main", nil, nil)},
			}},
			wantRequests: map[string]string{"ephemeral-storage": "10Gi"}, wantLimit: map[string]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			warnings := Apply(tc.pod, small())
			got := tc.pod.Spec.Containers[0].Resources
			assert.Equal(t, tc.wantRequests, texts(got.Requests), "requests")
			assert.Equal(t, tc.wantLimit, texts(got.Limits), "limits")
			if tc.wantWarning == "" {
				assert.Empty(t, warnings)
			} else {
				assert.Equal(t, []string{tc.wantWarning}, warnings)
			}
			assert.Equal(t, "shop/small@3", tc.pod.Annotations[v1alpha1.ResolvedLimitAnnotation])
		})
	}
}

func TestTheMainContainerIsTheOneThatThePodNames(t *testing.T) {
	for named, want := range map[string]string{"": "first", "second": "second", "unknown": "first"} {
		pod := podOf(container("first", nil, nil), container("second", nil, nil))
		pod.Annotations = map[string]string{DefaultContainerAnnotation: named}
		Apply(pod, small())
		for _, c := range pod.Spec.Containers {
			assert.Equal(t, c.Name == want, len(c.Resources.Requests) > 0, "%q, container %s", named, c.Name)
		}
	}
}

func TestAnEmptyLimitChangesNothing(t *testing.T) {
	pod := podOf(container("main", nil, nil))
	assert.Empty(t, Apply(pod, &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "empty", Generation: 1}}))
	want := podOf(container("main", nil, nil))
	want.Annotations = map[string]string{v1alpha1.ResolvedLimitAnnotation: "shop/empty@1"}
	assert.Equal(t, want, pod)
	assert.Empty(t, Apply(&corev1.Pod{}, small()), "a pod without containers is the API server's to refuse")
}

func TestAPodWithThisGenerationIsUnchanged(t *testing.T) {
	limit := small()
	pod := podOf(container("main", nil, nil))
	pod.Annotations = map[string]string{v1alpha1.ResolvedLimitAnnotation: Resolved(limit)}
	want := pod.DeepCopy()
	assert.Empty(t, Apply(pod, limit))
	assert.Equal(t, want, pod)
	limit.Generation++
	Apply(pod, limit)
	assert.NotEqual(t, want, pod)
}

func TestVolumesBecomeClaimsOfThePod(t *testing.T) {
	limit := small()
	limit.Spec.Volumes = map[string]v1alpha1.VolumeLimit{
		"scratch": {Size: resource.MustParse("5Gi"), StorageClass: new("fast"), MountPath: "/work"},
		"data":    {Size: resource.MustParse("1Gi")},
	}
	pod := podOf(container("main", nil, nil), container("log", nil, nil))
	assert.Empty(t, Apply(pod, limit))
	require.Len(t, pod.Spec.Volumes, 2)
	for i, want := range []struct{ name, size, class, mount string }{{"data", "1Gi", "", "/volumes/data"}, {"scratch", "5Gi", "fast", "/work"}} {
		v := pod.Spec.Volumes[i]
		assert.Equal(t, want.name, v.Name)
		spec := v.Ephemeral.VolumeClaimTemplate.Spec
		size := spec.Resources.Requests[corev1.ResourceStorage]
		assert.Equal(t, want.size, size.String())
		assert.Equal(t, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, spec.AccessModes)
		if want.class == "" {
			assert.Nil(t, spec.StorageClassName, "the cluster's default")
		} else {
			assert.Equal(t, want.class, *spec.StorageClassName)
		}
		assert.Equal(t, corev1.VolumeMount{Name: want.name, MountPath: want.mount}, pod.Spec.Containers[0].VolumeMounts[i])
	}
	assert.Empty(t, pod.Spec.Containers[1].VolumeMounts, "only the main container")
}

func TestThePodsOwnVolumesAndMountsWin(t *testing.T) {
	limit := small()
	limit.Spec.Volumes = map[string]v1alpha1.VolumeLimit{
		"cache": {Size: resource.MustParse("1Gi"), MountPath: "/cache"},
		"data":  {Size: resource.MustParse("2Gi")},
		"here":  {Size: resource.MustParse("3Gi")},
	}
	main := container("main", nil, nil)
	main.VolumeMounts = []corev1.VolumeMount{{Name: "other", MountPath: "/cache/"}, {Name: "here", MountPath: "/elsewhere"}}
	pod := podOf(main)
	pod.Spec.Volumes = []corev1.Volume{{Name: "data"}, {Name: "other"}}
	assert.Equal(t, []string{
		`spec.containers[0].volumeMounts: the pod's own mount at "/cache" is kept, volume "cache" of 1Gi is left out`,
		`spec.volumes: the pod's own volume "data" is kept, the one of 2Gi is left out`,
	}, Apply(pod, limit))
	require.Len(t, pod.Spec.Volumes, 3)
	assert.Equal(t, "here", pod.Spec.Volumes[2].Name, "a volume that the pod mounts itself is added")
	assert.Equal(t, main.VolumeMounts, pod.Spec.Containers[0].VolumeMounts, "and mounted where the pod sets it")
}

func TestNodeRulesAreAdded(t *testing.T) {
	limit := small()
	limit.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	pod := podOf(container("main", nil, nil))
	pod.Spec.NodeSelector = map[string]string{"zone": "a"}
	assert.Empty(t, Apply(pod, limit))
	assert.Equal(t, map[string]string{"disk": "ssd", "zone": "a"}, pod.Spec.NodeSelector)

	other := podOf(container("main", nil, nil))
	other.Spec.NodeSelector = map[string]string{"disk": "hdd"}
	require.Len(t, Apply(other, limit), 1)
	assert.Equal(t, "hdd", other.Spec.NodeSelector["disk"])
}
