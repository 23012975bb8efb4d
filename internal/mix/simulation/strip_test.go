// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func owned(p *corev1.Pod, uid string) *corev1.Pod {
	p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(uid), Name: uid, Controller: new(true)}}
	return p
}

func TestStrippedPodsCountAsTheWholeOnes(t *testing.T) {
	whole := pod("a", "n", func(p *corev1.Pod) {
		p.Spec.HostNetwork = true
		p.Spec.Overhead = resources("10m")
		always := corev1.ContainerRestartPolicyAlways
		p.Spec.InitContainers = []corev1.Container{
			{Name: "sidecar", RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: resources("300m")}},
			{Name: "init", Resources: corev1.ResourceRequirements{Requests: resources("3")}},
		}
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{
			{ContainerPort: 1}, {ContainerPort: 2, HostPort: 80, Protocol: corev1.ProtocolTCP},
		}
		p.Spec.Volumes = []corev1.Volume{
			{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
			{
				Name:         "data",
				VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}},
			},
		}
		p.Spec.Affinity = antiAffinity("a")
	})
	for name, change := range map[string]func(*corev1.Pod){
		"as it was made": func(*corev1.Pod) {},
		"being made larger": func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{
				{Name: "main", Resources: &corev1.ResourceRequirements{Requests: resources("100m")}},
			}
		},
		"being made smaller": func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{
				{Name: "main", AllocatedResources: resources("5"), Resources: &corev1.ResourceRequirements{Requests: resources("5")}},
			}
		},
		"not to be made larger": func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{
				{Name: "main", AllocatedResources: resources("100m"), Resources: &corev1.ResourceRequirements{Requests: resources("100m")}},
			}
		},
		"with pod-level resources": func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: resources("7")}
		},
		"with pod-level resources that are being made smaller": func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: resources("7")}
			p.Status.AllocatedResources = resources("9")
			p.Status.Resources = &corev1.ResourceRequirements{Requests: resources("9")}
		},
		"with pod-level resources that are not to be made larger": func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: resources("7")}
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
			p.Status.AllocatedResources = resources("5")
			p.Status.Resources = &corev1.ResourceRequirements{Requests: resources("5")}
		},
		"whose containers have more together than they request": func(p *corev1.Pod) {
			p.Status.AllocatedResources = resources("9")
			p.Status.Resources = &corev1.ResourceRequirements{Requests: resources("9")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := whole.DeepCopy()
			change(p)
			want, got := framework.NewNodeInfo(p), framework.NewNodeInfo(newStripper().strip(p).info.GetPod())
			assert.Equal(t, want.Requested, got.Requested)
			assert.Equal(t, want.NonZeroRequested, got.NonZeroRequested)
			assert.Equal(t, want.UsedPorts, got.UsedPorts)
			assert.Equal(t, want.PVCRefCounts, got.PVCRefCounts)
			assert.Len(t, got.PodsWithRequiredAntiAffinity, 1)
		})
	}
}

func TestWhatNoFilterReadsIsNotHeld(t *testing.T) {
	p := stripPod(pod("a", "n", func(p *corev1.Pod) {
		p.Annotations, p.ManagedFields = map[string]string{"a": "b"}, []metav1.ManagedFieldsEntry{{}}
		p.Spec.Containers[0].Env, p.Spec.Containers[0].Image = []corev1.EnvVar{{}}, "i"
		p.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "main", ImageID: "i", Resources: &corev1.ResourceRequirements{Requests: resources("1000m")}},
		}
	}))
	assert.Empty(t, p.Annotations)
	assert.Empty(t, p.ManagedFields)
	assert.Empty(t, p.Spec.Containers[0].Env)
	assert.Empty(t, p.Spec.Volumes)
	assert.Empty(t, p.Status.ContainerStatuses, "the same as in the spec")

	n := stripNode(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": "b", corev1.LastAppliedConfigAnnotation: "c"}},
		Status: corev1.NodeStatus{
			Images: []corev1.ContainerImage{{}}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady}}, DeclaredFeatures: []string{"A"},
		},
	})
	assert.Equal(t, []string{"A"}, n.Status.DeclaredFeatures, "NodeDeclaredFeatures filters by them")
	assert.Equal(t, map[string]string{"a": "b"}, n.Annotations)
	assert.Empty(t, n.Status.Images)
	assert.Len(t, n.Status.Conditions, 1)

	rs, err := stripObject(&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{
		Selector: &metav1.LabelSelector{}, Template: corev1.PodTemplateSpec{Spec: pod("a", "").Spec},
	}})
	require.NoError(t, err)
	assert.NotNil(t, rs.(*appsv1.ReplicaSet).Spec.Selector)
	assert.Empty(t, rs.(*appsv1.ReplicaSet).Spec.Template.Spec.Containers)
}

func TestSiblingsShareWhatIsEqual(t *testing.T) {
	s := newStripper()
	first := s.strip(owned(pod("a", "n"), "x"))
	second := s.strip(owned(pod("b", "m"), "x"))
	assert.Same(t, first.info, second.info, "no filter can tell them apart")
	assert.Equal(t, []string{"n", "m"}, []string{first.node, second.node})
	assert.NotEqual(t, first.uid, second.uid)

	third := s.strip(owned(pod("c", "n", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
	}), "x"))
	assert.NotSame(t, first.info, third.info)
	assert.Equal(t, "2", third.info.GetPod().Spec.Containers[0].Resources.Requests.Cpu().String())
	assert.Equal(t, "1", first.info.GetPod().Spec.Containers[0].Resources.Requests.Cpu().String())

	labelled := s.strip(owned(pod("d", "n", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
		p.Labels = map[string]string{"ordinal": "3"}
	}), "x"))
	assert.NotSame(t, third.info, labelled.info, "selectors can tell them apart")
	assert.Same(t, &third.info.GetPod().Spec.Containers[0], &labelled.info.GetPod().Spec.Containers[0])

	assert.NotSame(t, first.info, s.strip(owned(pod("e", "n"), "y")).info, "of another owner")
	assert.NotSame(t, s.strip(pod("f", "n")).info, s.strip(pod("g", "n")).info, "of no owner")
}

// The API server copies the zone of the node to the labels of a pod that is bound.
func TestSiblingsShareWithinTheirZone(t *testing.T) {
	s := newStripper()
	in := func(name, key, value string) fwk.PodInfo {
		return s.strip(owned(pod(name, "n", func(p *corev1.Pod) { p.Labels = map[string]string{key: value} }), "x")).info
	}
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		a, b := in("a", key, "1"), in("b", key, "2")
		assert.NotSame(t, a, b, "selectors can tell them apart")
		assert.Same(t, a, in("c", key, "1"), "after one of another %s", key)
		assert.Same(t, b, in("d", key, "2"))
	}
}

// A pod may have a controller of another namespace, but is evaluated in its own.
func TestSiblingsAreOfOneNamespace(t *testing.T) {
	s := newStripper()
	elsewhere := func(p *corev1.Pod) { p.Namespace = "elsewhere" }
	forged := s.strip(owned(pod("a", "n", elsewhere), "x"))
	for _, name := range []string{"b", "c"} {
		victim := s.strip(owned(pod(name, "n", func(p *corev1.Pod) { p.Labels = map[string]string{"name": name} }), "x"))
		assert.Equal(t, pod("b", "n").Namespace, victim.info.GetPod().Namespace)
		assert.NotSame(t, forged.info, victim.info)
	}
}

// The claim of an ephemeral volume is named after the pod, so the pod is not interchangeable.
func TestSiblingsWithTheirOwnClaimsStayDistinct(t *testing.T) {
	s := newStripper()
	withClaim := func(name string) *corev1.Pod {
		return owned(pod(name, "n", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{
				{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
			}
		}), "x")
	}
	first, second := s.strip(withClaim("a")), s.strip(withClaim("b"))
	assert.NotSame(t, first.info, second.info)
	assert.Equal(t, "b", second.info.GetPod().Name)
}

func TestATerminatingSiblingStaysDistinct(t *testing.T) {
	s := newStripper()
	first := s.strip(owned(pod("a", "n"), "x"))
	now := metav1.Now()
	going := s.strip(owned(pod("b", "n", func(p *corev1.Pod) { p.DeletionTimestamp = &now }), "x"))
	assert.NotSame(t, first.info, going.info)
	assert.NotNil(t, going.info.GetPod().DeletionTimestamp)
	assert.Same(
		t, going.info,
		s.strip(owned(pod("c", "n", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now.Add(1)} }), "x")).info,
	)
}
