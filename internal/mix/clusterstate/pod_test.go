// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/kube/pods"
)

func volume(name string, source corev1.VolumeSource) a[*corev1.Pod] {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	}
}

func TestLocalData(t *testing.T) {
	empty := volume("tmp", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	memory := volume("shm", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}})
	host := volume("host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}})
	tests := map[string]struct {
		changes []a[*corev1.Pod]
		want    string
	}{
		"no volume":               {nil, ""},
		"an emptyDir":             {[]a[*corev1.Pod]{empty}, "tmp"},
		"an emptyDir in memory":   {[]a[*corev1.Pod]{memory}, ""},
		"a directory of the node": {[]a[*corev1.Pod]{memory, host}, "host"},
		"what comes with the pod": {[]a[*corev1.Pod]{
			volume("config", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}),
			volume("claim", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}),
			volume("generic", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}),
			volume("csi", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}),
		}, ""},
		"the pod is safe to evict":               {[]a[*corev1.Pod]{empty, host, annotated(pods.SafeToEvict, "true")}, ""},
		"the pod is not safe to evict":           {[]a[*corev1.Pod]{empty, annotated(pods.SafeToEvict, "false")}, "tmp"},
		"the volume holds nothing of value":      {[]a[*corev1.Pod]{empty, annotated(pods.SafeToEvictVolumes, "other, tmp")}, ""},
		"another volume holds nothing of value":  {[]a[*corev1.Pod]{empty, host, annotated(pods.SafeToEvictVolumes, "tmp")}, "host"},
		"a name that only begins like the other": {[]a[*corev1.Pod]{empty, annotated(pods.SafeToEvictVolumes, "tmp2")}, "tmp"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := podNamed("p", tc.changes...)
			assert.Equal(t, tc.want, newClusterState().podOf(p, nil).LocalData)
		})
	}
}

func TestMembersOfPodGroupsAreRecognized(t *testing.T) {
	member := podNamed("p", func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("gang")} })
	assert.True(t, newClusterState().podOf(member, nil).Grouped)
	assert.False(t, newClusterState().podOf(podNamed("p"), nil).Grouped)
}

func TestKeeps(t *testing.T) {
	tests := map[string]struct {
		annotations map[string]string
		after       time.Duration
		want        string
		until       time.Duration // after the creation, 0 for as long as the annotation is there
	}{
		"nothing":                                     {nil, 0, "", 0},
		"do-not-disrupt true":                         {map[string]string{pods.DoNotDisrupt: "true"}, 1000 * time.Hour, pods.DoNotDisrupt, 0},
		"do-not-disrupt false":                        {map[string]string{pods.DoNotDisrupt: "false"}, 0, "", 0},
		"do-not-disrupt for a time, within it":        {map[string]string{pods.DoNotDisrupt: "1h30m"}, 90*time.Minute - time.Second, pods.DoNotDisrupt, 90 * time.Minute},
		"do-not-disrupt for a time, after it":         {map[string]string{pods.DoNotDisrupt: "1h30m"}, 90 * time.Minute, "", 0},
		"do-not-disrupt that is no time":              {map[string]string{pods.DoNotDisrupt: "soon"}, 0, "", 0},
		"safe-to-evict false":                         {map[string]string{pods.SafeToEvict: "false"}, 0, pods.SafeToEvict, 0},
		"safe-to-evict true":                          {map[string]string{pods.SafeToEvict: "true"}, 0, "", 0},
		"prefer-no-eviction counts by being there":    {map[string]string{pods.PreferNoEviction: ""}, 0, pods.PreferNoEviction, 0},
		"what time does not end comes first":          {map[string]string{pods.DoNotDisrupt: "1h", pods.SafeToEvict: "false"}, 0, pods.SafeToEvict, 0},
		"a time that is over leaves it to the others": {map[string]string{pods.DoNotDisrupt: "1s", pods.SafeToEvict: "false"}, time.Minute, pods.SafeToEvict, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := podNamed("p")
			p.Annotations = tc.annotations
			key, until := newClusterState().podOf(p, nil).Keeps(epoch.Add(tc.after))
			assert.Equal(t, tc.want, key)
			if tc.until == 0 {
				assert.Zero(t, until)
			} else {
				assert.True(t, until.Equal(epoch.Add(tc.until)), "until %s", until)
			}
		})
	}
}

func container(cpu, memory string) corev1.Container {
	return corev1.Container{Name: cpu + memory, Resources: corev1.ResourceRequirements{Requests: requestsOf(cpu, memory)}}
}

func sidecar(cpu, memory string) corev1.Container {
	c := container(cpu, memory)
	c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	return c
}

func TestRequests(t *testing.T) {
	const mi = 1 << 20
	type (
		spec       = corev1.PodSpec
		containers = []corev1.Container
	)
	small := containers{container("100m", "64Mi")}
	tests := map[string]struct {
		spec        spec
		cpu, memory int64
	}{
		"nothing":               {spec{Containers: containers{{}}}, 0, 0},
		"containers are summed": {spec{Containers: containers{container("100m", "64Mi"), container("1", "1Mi")}}, 1100, 65 * mi},
		"an init container counts where it is greater, by resource": {
			spec{Containers: small, InitContainers: containers{container("2", "1Mi"), container("1", "1Mi")}}, 2000, 64 * mi,
		},
		"a sidecar is summed": {spec{Containers: small, InitContainers: containers{sidecar("50m", "10Mi"), sidecar("50m", "6Mi")}}, 200, 80 * mi},
		"an init container runs beside the sidecars before it": {
			spec{Containers: small, InitContainers: containers{sidecar("50m", "1Mi"), container("400m", "1Mi"), sidecar("500m", "1Mi")}}, 650, 66 * mi,
		},
		"overhead is added": {spec{Containers: small, Overhead: requestsOf("10m", "2Mi")}, 110, 66 * mi},
		"the pod's own requests stand for those of its containers": {
			spec{Containers: small, Resources: &corev1.ResourceRequirements{Requests: requestsOf("3", "5Mi")}}, 3000, 5 * mi,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := podNamed("p")
			p.Spec = tc.spec
			cpu, memory := requests(p)
			assert.Equal(t, tc.cpu, cpu)
			assert.Equal(t, tc.memory, memory)
		})
	}
}

// "No node has free capacity" must be certain: what a pod is taken to request, and to
// use, is never more than the scheduler takes it to.
func TestAPodNeverRequestsMoreThanTheSchedulerCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPod(t)
		cpu, memory := requests(p)
		for _, o := range []resourcehelper.PodResourcesOptions{
			{}, {UseStatusResources: true}, {UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true},
		} {
			theirs := resourcehelper.PodRequests(p, o)
			require.LessOrEqual(t, cpu, theirs.Cpu().MilliValue())
			require.LessOrEqual(t, memory, theirs.Memory().Value())
		}
	})
}
