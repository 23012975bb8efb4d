// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
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
		w.CreateForTest(v)
		// A claim that the controller sees before its volume waits for a resync.
		testenv.WaitForIn(w, "", v.Name, "it is known", func(v *corev1.PersistentVolume) bool { return v.Status.Phase == corev1.VolumeAvailable })
		w.Create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim}, Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(""), VolumeName: v.Name, AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size},
		}})
		testenv.WaitFor(w, claim, "it is bound", func(c *corev1.PersistentVolumeClaim) bool { return c.Status.Phase == corev1.ClaimBound })
	}
}
