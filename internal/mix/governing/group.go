// SPDX-License-Identifier: Apache-2.0

package governing

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/replacement"
	"berth.dev/berth/internal/mix/split"
)

// maxUID is longer than any UID of an API server.
const maxUID = 64

// bounded truncates a UID that is not from an API server: the UID in an owner reference may be any text. Such pods have
// no controller, and at worst share a group with others of their namespace.
func bounded(uid string) string {
	if len(uid) <= maxUID {
		return uid
	}
	return strings.Clone(uid[:maxUID])
}

// IdentitySlot returns the slot that follows from a pod's identity, whenever it is created: the ordinal of a
// StatefulSet's pod counted from ordinals.start, the completion index of an Indexed Job's. ok is false for all other
// pods, and below ordinals.start, where a pod is about to be removed.
func IdentitySlot(pod *corev1.Pod, controllers Controllers) (slot int, ok bool) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return split.NoSlot, false
	}
	switch replacement.MakerOf(ref) {
	case replacement.StatefulSet:
		slot, ok = ordinal(pod)
		slot -= firstOrdinal(controllers.Controller(pod.Namespace, ref))
	case replacement.Job:
		index, indexed := pod.Annotations[batchv1.JobCompletionIndexAnnotation]
		if !indexed {
			return split.NoSlot, false
		}
		slot, ok = number(index)
	}
	if !ok || slot < 0 || slot > split.MaxSlot {
		return split.NoSlot, false
	}
	return slot, true
}

// Ordinals is a controller of which only some fields are kept.
type Ordinals interface {
	// FirstOrdinal returns the first ordinal of its pods.
	FirstOrdinal() int
}

// firstOrdinal returns 0 for an unknown controller.
func firstOrdinal(controller metav1.Object) int {
	switch set := controller.(type) {
	case *appsv1.StatefulSet:
		if set.Spec.Ordinals != nil {
			return int(set.Spec.Ordinals.Start)
		}
	case Ordinals:
		return set.FirstOrdinal()
	}
	return 0
}

// ordinal returns the number at the end of a StatefulSet pod's name. The label apps.kubernetes.io/pod-index has it too
// but may be missing on pods that were created before Kubernetes 1.28.
func ordinal(pod *corev1.Pod) (int, bool) {
	dash := strings.LastIndexByte(pod.Name, '-')
	if dash < 0 {
		return 0, false
	}
	return number(pod.Name[dash+1:])
}

// ClaimedSlot returns the slot in the annotation that the scheduler added to a pod when it bound it.
func ClaimedSlot(pod *corev1.Pod) (slot int, ok bool) {
	text, found := pod.Annotations[v1alpha1.SlotAnnotation]
	if !found {
		return split.NoSlot, false
	}
	slot, ok = number(text)
	if !ok || slot > split.MaxSlot {
		return split.NoSlot, false
	}
	return slot, true
}

// number parses a decimal number that is not negative.
func number(text string) (int, bool) {
	if len(text) > maxDigits {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil
}
