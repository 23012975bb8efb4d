// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// replaceClaims changes the claims of single pods to their state after the pods are replaced: the claims of pods that
// are gone release their devices, and the replacement gets its own, which do not exist yet. Without them the plugins
// would reject the pod. It returns how to undo that.
func (s *Snapshot) replaceClaims(old, pod *corev1.Pod, gone map[types.UID]bool) (undo func()) {
	var undos []func()
	put := func(i *informer, o metav1.Object) {
		i.put(o)
		undos = append(undos, func() { i.drop(o) })
	}
	devices := s.informers.of(s.informers.Resource().V1().ResourceClaims(), &resourcev1.ResourceClaim{})
	volumes := s.informers.of(s.informers.Core().V1().PersistentVolumeClaims(), &corev1.PersistentVolumeClaim{})
	if hasOwnClaims(pod) {
		pod.Name = string(pod.UID) // the claims are named after the pod, and those of the old pod may stay
	}
	claims := deviceClaims(devices, old, pod)
	for _, o := range devices.GetStore().List() {
		if claim := o.(*resourcev1.ResourceClaim); ownedByOne(claim, gone) {
			devices.drop(claim)
			undos = append(undos, func() { devices.put(claim) })
		}
	}
	for _, claim := range claims {
		put(devices, claim)
	}
	for _, claim := range volumeClaims(pod) {
		put(volumes, claim)
	}
	return func() {
		for _, u := range slices.Backward(undos) {
			u()
		}
	}
}

func hasOwnClaims(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Ephemeral != nil }) ||
		slices.ContainsFunc(p.Spec.ResourceClaims, func(c corev1.PodResourceClaim) bool { return c.ResourceClaimTemplateName != nil })
}

func ownedByOne(o metav1.Object, pods map[types.UID]bool) bool {
	owner := metav1.GetControllerOfNoCopy(o)
	return owner != nil && pods[owner.UID]
}

// deviceClaims returns copies, unallocated, of the claims that were created for the old pod from a template.
func deviceClaims(claims *informer, old, pod *corev1.Pod) []*resourcev1.ResourceClaim {
	var out []*resourcev1.ResourceClaim
	for _, ref := range pod.Spec.ResourceClaims {
		if ref.ResourceClaimTemplateName == nil {
			continue
		}
		for _, made := range old.Status.ResourceClaimStatuses {
			if made.Name != ref.Name || made.ResourceClaimName == nil {
				continue
			}
			o, found, _ := claims.GetStore().GetByKey(old.Namespace + "/" + *made.ResourceClaimName)
			if !found {
				continue
			}
			claim := &resourcev1.ResourceClaim{ObjectMeta: ownedBy(pod, ref.Name), Spec: o.(*resourcev1.ResourceClaim).Spec}
			pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses,
				corev1.PodResourceClaimStatus{Name: ref.Name, ResourceClaimName: &claim.Name})
			out = append(out, claim)
		}
	}
	return out
}

// volumeClaims returns the claims of generic ephemeral volumes.
func volumeClaims(pod *corev1.Pod) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for _, v := range pod.Spec.Volumes {
		if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
			continue
		}
		out = append(out, &corev1.PersistentVolumeClaim{
			ObjectMeta: ownedBy(pod, v.Name),
			Spec:       v.Ephemeral.VolumeClaimTemplate.Spec,
			Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
		})
	}
	return out
}

// ownedBy is the metadata of an object that exists for one pod only. The names of the claims of ephemeral volumes must
// have this form.
func ownedBy(pod *corev1.Pod, suffix string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name + "-" + suffix, ResourceVersion: "1",
		UID: types.UID(string(pod.UID) + "-" + suffix),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true),
		}},
	}
}
