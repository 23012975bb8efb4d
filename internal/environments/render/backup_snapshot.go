// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/apis/v1alpha1"
)

// Kinds of the API of snapshots, which is none of Kubernetes' own.
var (
	SnapshotKind      = schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot"}
	SnapshotClassKind = SnapshotKind.GroupVersion().WithKind("VolumeSnapshotClass")
)

// defaultSnapshotClass is on the class that a driver's snapshots have where no one names one.
const defaultSnapshotClass = "snapshot.storage.kubernetes.io/is-default-class"

// Annotations of claims that record how one was bound: what is copied is not.
var bindingAnnotations = []string{
	"pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/", corev1.LastAppliedConfigAnnotation,
}

// Snapshot is a snapshot of the claim that the database of an environment has its data on.
func Snapshot(e *v1alpha1.Environment, b *v1alpha1.DatabaseBackup, claim, class string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"source":                  map[string]any{"persistentVolumeClaimName": claim},
		"volumeSnapshotClassName": class,
	}}}
	u.SetGroupVersionKind(SnapshotKind)
	meta := ofBackup(e, b, "")
	u.SetName(meta.Name)
	u.SetNamespace(meta.Namespace)
	u.SetLabels(meta.Labels)
	return u
}

// SnapshotClass is the class for snapshots of a driver's volumes: the default one, else the first by name; "" if there is none.
func SnapshotClass(classes []unstructured.Unstructured, driver string) string {
	name, isDefault := "", false
	for i := range classes {
		u := &classes[i]
		if of, _, _ := unstructured.NestedString(u.Object, "driver"); of != driver {
			continue
		}
		is := u.GetAnnotations()[defaultSnapshotClass] == "true"
		if name == "" || is && !isDefault || is == isDefault && u.GetName() < name {
			name, isDefault = u.GetName(), is
		}
	}
	return name
}

// ClaimFrom is a claim as another one, but for its volume, which is made of a snapshot. The controller finds in it all that it
// rendered, and treats it as its own.
func ClaimFrom(old *corev1.PersistentVolumeClaim, snapshot string) *corev1.PersistentVolumeClaim {
	from := old.DeepCopy()
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Name: from.Name, Namespace: from.Namespace, Labels: from.Labels, Annotations: from.Annotations,
			OwnerReferences: from.OwnerReferences,
		},
		Spec: from.Spec,
	}
	for name := range claim.Annotations {
		if slices.ContainsFunc(bindingAnnotations, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			delete(claim.Annotations, name)
		}
	}
	claim.Spec.VolumeName, claim.Spec.DataSourceRef = "", nil
	claim.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: new(SnapshotKind.Group), Kind: SnapshotKind.Kind, Name: snapshot}
	return claim
}

// MadeFrom reports whether a claim's volume is made of a snapshot.
func MadeFrom(claim *corev1.PersistentVolumeClaim, snapshot string) bool {
	s := claim.Spec.DataSource
	return s != nil && s.APIGroup != nil && *s.APIGroup == SnapshotKind.Group && s.Kind == SnapshotKind.Kind && s.Name == snapshot
}
