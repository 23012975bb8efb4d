// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func claimVolume(claim string) corev1.Volume {
	return corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}
}

func bound(name string, mode corev1.PersistentVolumeAccessMode, zone string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name, ResourceVersion: "1"}}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: name, UID: types.UID(name)}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}},
		},
	}}}}
	volume.Status.Phase = corev1.VolumeBound
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: "1", Annotations: map[string]string{
			"pv.kubernetes.io/bind-completed": "yes",
		},
	}}
	claim.Spec.VolumeName, claim.Spec.AccessModes = volume.Name, []corev1.PersistentVolumeAccessMode{mode}
	claim.Status.Phase = corev1.ClaimBound
	return claim, volume
}

func inZone(zone string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = zone }
}

func TestBoundVolumesKeepThePodInTheirZone(t *testing.T) {
	claim, volume := bound("data", corev1.ReadWriteOnce, "b")
	victim := pod("db-0", "n1", func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{claimVolume("data")} })
	nodes := []*corev1.Node{node("n1", "4", inZone("b")), node("n2", "4", inZone("a")), node("n3", "4", inZone("b"))}
	s := snapshot(t, DefaultProfile(), nodes, []*corev1.Pod{victim}, claim, volume)
	gone := []types.UID{"db-0"}
	assert.Equal(t, "n3", ask(t, s, Question{Pod: victim, Gone: gone, Nodes: func(n *corev1.Node) bool { return n.Name != "n1" }}).Node)
	a := ask(t, s, Question{Pod: victim, Gone: gone, Nodes: func(n *corev1.Node) bool { return n.Name == "n2" }})
	assert.False(t, a.Fits)
	assert.Equal(t, "0/1 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity.", a.Message())
}

func TestAClaimForOnePodIsFreeOnceTheVictimIsGone(t *testing.T) {
	claim, volume := bound("data", corev1.ReadWriteOncePod, "a")
	uses := func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{claimVolume("data")} }
	victim := pod("db-0", "n1", uses)
	nodes := []*corev1.Node{node("n1", "4", inZone("a")), node("n2", "4", inZone("a"))}
	s := snapshot(t, DefaultProfile(), nodes, []*corev1.Pod{victim}, claim, volume)
	assert.Contains(t, ask(t, s, Question{Pod: victim}).Message(), "ReadWriteOncePod")
	assert.True(t, ask(t, s, Question{Pod: victim, Gone: []types.UID{"db-0"}}).Fits)
}

func TestTheClaimOfAnEphemeralVolumeIsMadeUp(t *testing.T) {
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "zonal"}, Provisioner: "p", VolumeBindingMode: &wait,
		AllowedTopologies: []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
			{Key: corev1.LabelTopologyZone, Values: []string{"b"}},
		}}},
	}
	victim := pod("a", "n1", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: new("zonal"),
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				},
			}},
		}}}}
	})
	nodes := []*corev1.Node{node("n1", "4", inZone("a")), node("n2", "4", inZone("b"))}
	s := snapshot(t, DefaultProfile(), nodes, []*corev1.Pod{victim}, class)
	for range 2 {
		a := ask(t, s, Question{Pod: victim, Gone: []types.UID{"a"}})
		assert.Equal(t, "n2", a.Node, a.Message())
	}
}

func TestDevicesOfTheVictimAreFreeForItsReplacement(t *testing.T) {
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "d", NodeName: new("n1"), Devices: []resourcev1.Device{{Name: "g0"}},
		Pool: resourcev1.ResourcePool{Name: "n1", ResourceSliceCount: 1},
	}}
	victim := pod("a", "n1", func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("t")}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: new("a-gpu")}}
	})
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: ownedBy(victim, "gpu"),
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
			},
		}}}},
		Status: resourcev1.ResourceClaimStatus{
			Allocation: &resourcev1.AllocationResult{
				Devices: resourcev1.DeviceAllocationResult{
					Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: "n1", Device: "g0"}},
				},
			},
			ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "a", UID: "a"}},
		},
	}
	s := snapshot(t, DefaultProfile(), []*corev1.Node{node("n1", "4"), node("n2", "4")}, []*corev1.Pod{victim}, class, slice, claim)
	for range 2 {
		a := ask(t, s, Question{Pod: victim})
		assert.False(t, a.Fits, "its device is in use")
		a = ask(t, s, Question{Pod: victim, Gone: []types.UID{"a"}})
		assert.Equal(t, "n1", a.Node, a.Message())
	}
}
