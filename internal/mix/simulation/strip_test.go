// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"
	"time"

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
			want, got := framework.NewNodeInfo(p), framework.NewNodeInfo(infos(t, p)[0].GetPod())
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

// infos are the records of pods, of which no filter reads the zone.
func infos(t *testing.T, all ...*corev1.Pod) (list []fwk.PodInfo) {
	t.Helper()
	r := newRecords(false)
	for _, p := range all {
		one, err := r.of(scheduled(p))
		require.NoError(t, err)
		assert.Equal(t, p.UID, one.uid)
		assert.Equal(t, p.Spec.NodeName, one.node)
		list = append(list, one.info)
	}
	return list
}

func TestPodsThatNoFilterCanDistinguishShareARecord(t *testing.T) {
	large := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
	}
	got := infos(t, pod("a", "n"), pod("b", "m"), pod("c", "n", large),
		pod("d", "n", large, func(p *corev1.Pod) { p.Labels = map[string]string{"ordinal": "3"} }),
		pod("e", "n", func(p *corev1.Pod) { p.Namespace = "elsewhere" }))
	assert.Same(t, got[0], got[1])
	assert.Equal(t, "1", got[0].GetPod().Spec.Containers[0].Resources.Requests.Cpu().String())
	assert.NotSame(t, got[0], got[2], "it requests more")
	assert.Equal(t, "2", got[2].GetPod().Spec.Containers[0].Resources.Requests.Cpu().String())
	assert.NotSame(t, got[2], got[3], "selectors can tell them apart")
	assert.Same(t, &got[2].GetPod().Spec.Containers[0], &got[3].GetPod().Spec.Containers[0])
	assert.NotSame(t, got[0], got[4], "of another namespace")
	assert.Equal(t, "elsewhere", got[4].GetPod().Namespace)
}

// The DaemonSet controller writes the node of each pod into its affinity.
func TestThePodsOfADaemonSetShareARecord(t *testing.T) {
	on := func(node string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
				}}},
			}}
		}
	}
	got := infos(t, pod("a", "n", on("n")), pod("b", "m", on("m")))
	assert.Same(t, got[0], got[1])
}

// The claim of an ephemeral volume is named after the pod.
func TestPodsWithClaimsOfTheirOwnStayDistinct(t *testing.T) {
	withClaim := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
	}
	got := infos(t, pod("a", "n", withClaim), pod("b", "n", withClaim))
	assert.NotSame(t, got[0], got[1])
	assert.Equal(t, "b", got[1].GetPod().Name)
}

func TestATerminatingPodStaysDistinct(t *testing.T) {
	now := metav1.Now()
	at := func(d time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now.Add(d)} }
	}
	got := infos(t, pod("a", "n"), pod("b", "n", at(0)), pod("c", "n", at(1)))
	assert.NotSame(t, got[0], got[1])
	assert.NotNil(t, got[1].GetPod().DeletionTimestamp)
	assert.Same(t, got[1], got[2])
}

// The API server copies the zone of the node to the labels of a pod that is bound. Few selectors name it.
func TestReplicasShareARecordUnlessAFilterReadsTheirZone(t *testing.T) {
	in := func(name, zone string) *corev1.Pod {
		return pod(name, "n1", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web", corev1.LabelTopologyZone: zone} })
	}
	s := snapshot(t, DefaultProfile(), []*corev1.Node{node("n1", "8")}, []*corev1.Pod{in("a", "1"), in("b", "2")})
	distinct := func() bool { return s.base.placed[0].info != s.base.placed[1].info }
	plain := in("c", "1")
	plain.Spec.Affinity = antiAffinity(corev1.LabelHostname)
	assert.False(t, ask(t, s, Question{Pod: plain}).Fits, "it must not run beside pods of app web")
	assert.False(t, distinct())

	picky := in("d", "1")
	picky.Spec.Affinity = antiAffinity(corev1.LabelHostname)
	term := &picky.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
	term.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelTopologyZone: "2"}}
	assert.False(t, ask(t, s, Question{Pod: picky}).Fits, "one of zone 2 is there")
	assert.True(t, distinct())
	assert.True(t, ask(t, s, Question{Pod: picky, Gone: []types.UID{"b"}}).Fits, "none of zone 2 is there")
}

func TestEveryLabelSelectorOfAFilterIsReadForTheTopology(t *testing.T) {
	selectors := map[string]*metav1.LabelSelector{
		"labels":      {MatchLabels: map[string]string{corev1.LabelTopologyRegion: "r"}},
		"expressions": {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: metav1.LabelSelectorOpDoesNotExist}}},
	}
	zone := []string{corev1.LabelTopologyZone}
	terms := map[string]corev1.PodAffinityTerm{"keys": {MatchLabelKeys: zone}, "keys that differ": {MismatchLabelKeys: zone}}
	constraints := map[string]corev1.TopologySpreadConstraint{"keys": {MatchLabelKeys: zone}}
	for name, selector := range selectors {
		terms[name], constraints[name] = corev1.PodAffinityTerm{LabelSelector: selector}, corev1.TopologySpreadConstraint{LabelSelector: selector}
	}
	for name, term := range terms {
		all := []corev1.PodAffinityTerm{{}, term}
		assert.True(t, readsTopology(&corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{
			PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: all},
		}}}), name)
		assert.True(t, readsTopology(&corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: all},
		}}}), name)
	}
	for name, c := range constraints {
		assert.True(t, readsTopology(&corev1.Pod{Spec: corev1.PodSpec{
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{TopologyKey: corev1.LabelTopologyZone}, c},
		}}), name)
	}
	assert.False(t, readsTopology(largePod(0, "n")), "its constraint is for zones of nodes")
}
