// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// selectedNode is written to a claim when a pod that uses it has a node. The pod is bound after the claim is.
const selectedNode = "volume.kubernetes.io/selected-node"

// onVolumes gives each pod a volume of its own, of a class for which the test is the provisioner.
func onVolumes(w *testenv.World) func(*corev1.PodTemplateSpec) {
	w.T.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}, Provisioner: "provisioner.test",
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	w.CreateForTest(class)
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &class.Name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			}},
		}}}}
	}
}

// placed waits until n pods of the test have a node and wait for their volume, and returns their claims.
func placed(w *testenv.World, n int) (claims []corev1.PersistentVolumeClaim) {
	w.T.Helper()
	w.Eventually(fmt.Sprintf("%d pods wait for their volumes", n), func() (bool, string) {
		list := &corev1.PersistentVolumeClaimList{}
		require.NoError(w.T, w.Client.List(w.Ctx, list, client.InNamespace(w.Namespace)))
		claims = slices.DeleteFunc(slices.Clone(list.Items), func(c corev1.PersistentVolumeClaim) bool { return c.Annotations[selectedNode] == "" })
		return len(claims) == n, fmt.Sprintf("%d of %d claims", len(claims), len(list.Items))
	})
	return claims
}

// provision makes the volumes of claims.
func provision(w *testenv.World, claims []corev1.PersistentVolumeClaim) {
	w.T.Helper()
	for i := range claims {
		c := &claims[i]
		w.CreateForTest(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace + "-" + c.Name}, Spec: corev1.PersistentVolumeSpec{
			Capacity: c.Spec.Resources.Requests, AccessModes: c.Spec.AccessModes, StorageClassName: *c.Spec.StorageClassName,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: c.Namespace, Name: c.Name, UID: c.UID},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.test", VolumeHandle: c.Name}},
		}})
	}
}

// As where a chart is applied: all pods have a node, and some are bound, when the mix comes.
func TestPodsThatAreNotBoundFollowAMixThatComesLater(t *testing.T) {
	const replicas, early = 20, 4
	w := testenv.New(t, testenv.Roomy()...)
	m := split.New(70, 2)
	w.Create(builders.Deployment("web", replicas, onVolumes(w)))
	claims := placed(w, replicas)
	provision(w, claims[:early])
	bound := map[string]bool{}
	w.Eventually("the first ones are bound", func() (bool, string) {
		for _, p := range testenv.Where(w.Live("web"), testenv.Bound) {
			bound[p.Name] = true
		}
		return len(bound) == early, fmt.Sprint(len(bound))
	})
	w.Create(builders.CapacityMix("web", 70, 2))
	// A workload of its own is the sign that the scheduler has seen the mix.
	w.Create(builders.CapacityMix("sign", 0, 0), builders.Deployment("sign", 1))
	w.RequireExact("sign", split.New(0, 0), 1)
	provision(w, claims[early:])
	pods := w.WaitBound("web", replicas)
	require.Equal(t, testenv.SplitBy(m, replicas), w.SplitOf(pods))
	for i := range pods {
		_, has := governing.ClaimedSlot(&pods[i])
		assert.Equal(t, !bound[pods[i].Name], has, "pod %s has a slot", pods[i].Name)
	}
}
