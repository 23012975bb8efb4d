// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"fmt"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/test/testenv"
)

const claim = "data"

func mounted(t *corev1.PodTemplateSpec) {
	t.Spec.Volumes = []corev1.Volume{{Name: claim, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
}

// volumeIn makes a volume that is reached from one zone, and its claim, and
// waits until they are bound.
func volumeIn(zone string, mode corev1.PersistentVolumeAccessMode) func(*testenv.World) {
	return func(w *testenv.World) {
		size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		modes := []corev1.PersistentVolumeAccessMode{mode}
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}
		v.Spec = corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{Namespace: w.Namespace, Name: claim},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
			}}}},
		}
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "csi.test", VolumeHandle: w.Namespace}
		_, err := w.Kube.CoreV1().PersistentVolumes().Create(w.Ctx, v, metav1.CreateOptions{})
		require.NoError(w.T, err)
		w.T.Cleanup(func() { _ = w.Kube.CoreV1().PersistentVolumes().Delete(w.Ctx, v.Name, metav1.DeleteOptions{}) })
		// A claim that the controller sees before its volume waits for a resync.
		w.Eventually("the volume is known", func() (bool, string) {
			v, err := w.Kube.CoreV1().PersistentVolumes().Get(w.Ctx, v.Name, metav1.GetOptions{})
			return err == nil && v.Status.Phase == corev1.VolumeAvailable, fmt.Sprint(err)
		})
		w.Create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim}, Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(""), VolumeName: v.Name, AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size},
		}})
		w.Eventually("the claim is bound", func() (bool, string) {
			c, err := w.Kube.CoreV1().PersistentVolumeClaims(w.Namespace).Get(w.Ctx, claim, metav1.GetOptions{})
			return err == nil && c.Status.Phase == corev1.ClaimBound, fmt.Sprint(err)
		})
	}
}
