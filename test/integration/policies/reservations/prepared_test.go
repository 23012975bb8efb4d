// SPDX-License-Identifier: Apache-2.0

package reservations_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// claim makes a claim whose volume is made when the test calls provision.
func claim(w *testenv.World) (use func(*corev1.PodTemplateSpec), provision func()) {
	w.T.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}, Provisioner: "berth.test/provisioner",
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	w.CreateForTest(class)
	once := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	w.Create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class.Name, AccessModes: once, Resources: corev1.VolumeResourceRequirements{Requests: size},
	}})
	use = func(t *corev1.PodTemplateSpec) {
		t.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
	}
	return use, func() {
		w.CreateForTest(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}, Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: once, StorageClassName: class.Name, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.test", VolumeHandle: w.Namespace}},
			ClaimRef:               &corev1.ObjectReference{Namespace: w.Namespace, Name: "data"},
		}})
	}
}

// One of a group waits for its volume, long after capacity was prepared for the other. The other is assumed on its node, so what is
// prepared for it is counted once: it is not released for what the pod itself requests.
func TestWhatIsPreparedStaysUntilTheGroupIsBound(t *testing.T) {
	w := testenv.New(t, two()...)
	start(w)
	use, provision := claim(w)
	together := group("train", 2, 300)
	together.Spec.Bind.GroupLabelKey = "app"
	first := builders.Pod("train", "first", builders.CPU("3"))
	w.Create(together, first, builders.Pod("train", "second", builders.CPU("3"), use))
	name := "prepared-" + string(first.UID)
	r := waitFor(w, name, v1alpha1.ReasonReserved, 1, 0)
	assert.NotEmpty(t, r.Labels[v1alpha1.BindGroupLabel])

	held := func() (bool, string) {
		r := testenv.Read(w, name, &v1alpha1.Reservation{})
		return r.Status.HeldCount == 1, fmt.Sprint(r.Status, len(testenv.Where(w.Live("train"), testenv.Bound)), " bound")
	}
	w.Always(3*testenv.Short, "it is held", held) // what exceeds a node is released after two seconds
	for _, e := range w.BerthEvents(name) {
		assert.NotEqual(t, v1alpha1.ReasonReleased, e.Reason, e.Message)
	}
	provision()
	w.WaitBound("train", 2)
	w.Eventually("nothing is left of the preparation", func() (bool, string) { r := prepared(w); return len(r) == 0, fmt.Sprint(r) })
}
