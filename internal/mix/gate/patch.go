// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"berth.dev/berth/apis/v1alpha1"
)

// Patch returns the strategic merge patch that removes the gate of a pod and applies a change. The API server rejects
// it if the pod was replaced or has changed since it was read.
func Patch(pod *corev1.Pod, change func(*corev1.Pod)) ([]byte, error) {
	after := pod.DeepCopy()
	after.Spec.SchedulingGates = slices.DeleteFunc(
		after.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == v1alpha1.CapacityMixGate },
	)
	change(after)
	before := pod.DeepCopy()
	before.UID, before.ResourceVersion = "", "" // to be in the patch
	before.Status, after.Status = corev1.PodStatus{}, corev1.PodStatus{}
	old, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	changed, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(old, changed, corev1.Pod{})
}

// Annotate adds annotations to a pod.
func Annotate(pod *corev1.Pod, annotations map[string]string) {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	maps.Copy(pod.Annotations, annotations)
}
