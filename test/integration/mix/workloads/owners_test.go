// SPDX-License-Identifier: Apache-2.0

package workloads_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// createPods creates pods of an app, numbered from first, one right after the other.
func createPods(w *testenv.World, app string, first, n int, template ...func(*corev1.PodTemplateSpec)) {
	w.T.Helper()
	for i := range n {
		w.Create(builders.Pod(app, name(app, first+i), template...))
	}
}

// removeSlots deletes the pods on slots and returns how many are left.
func removeSlots(w *testenv.World, pods []corev1.Pod, slots ...int) (left int) {
	w.T.Helper()
	held := w.Slots(pods)
	gone := make([]corev1.Pod, 0, len(slots))
	for _, slot := range slots {
		require.Contains(w.T, held, slot)
		gone = append(gone, *held[slot])
		w.Delete(held[slot])
	}
	w.WaitGone(gone)
	return len(pods) - len(slots)
}

// requireRefill demands that new pods take the lowest free slots: the same
// slots, in the end, as if the first pods had never been deleted.
func requireRefill(w *testenv.World, app string, m split.Mix, template ...func(*corev1.PodTemplateSpec)) {
	w.T.Helper()
	createPods(w, app, 0, 10, template...)
	pods := w.RequireExact(app, m, 10)
	kept := removeSlots(w, pods, 0, 3, 4, 8)
	require.Equal(w.T, 6, kept)
	createPods(w, app, 10, 2, template...)
	w.WaitBound(app, 8)
	for i := range 2 {
		p := byName(w.Live(app))[name(app, 10+i)]
		slot, _ := policy.ClaimedSlot(&p)
		require.Contains(w.T, []int{0, 3}, slot, "the slot of pod %s: the two lowest free ones are 0 and 3", p.Name)
	}
	createPods(w, app, 12, 4, template...)
	w.RequireExact(app, m, 12)
}

func TestTheBarePodsOfACapacityMixAreOneGroup(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("bare", 60, 2), builders.CapacityMix("other", 50, 0))
	requireRefill(w, "bare", split.New(60, 2))
	createPods(w, "other", 0, 7)
	w.RequireExact("other", split.New(50, 0), 7)
	w.RequireExact("bare", split.New(60, 2), 12)
}

const fleetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: fleets.test.example.com}
spec:
  group: test.example.com
  scope: Namespaced
  names: {kind: State, listKind: FleetList, plural: fleets, singular: fleet}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// newFleet creates an object of a kind that Berth has never heard of and returns
// what makes it the controller of pods.
func newFleet(w *testenv.World, name string) func(*corev1.PodTemplateSpec) {
	w.T.Helper()
	require.NoError(w.T, w.Cluster.Apply(w.Ctx, fleetCRD))
	fleet := &unstructured.Unstructured{}
	fleet.SetAPIVersion("test.example.com/v1")
	fleet.SetKind("State")
	fleet.SetName(name)
	w.Create(fleet)
	return builders.OwnedBy(metav1.OwnerReference{
		APIVersion: fleet.GetAPIVersion(), Kind: fleet.GetKind(), Name: name, UID: fleet.GetUID(),
	})
}

func TestThePodsOfAThirdPartyOwnerAreTypedBySlot(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("fleet", 60, 2))
	requireRefill(w, "fleet", split.New(60, 2), newFleet(w, "first"))

	second := newFleet(w, "second")
	createPods(w, "fleet", 100, 5, second)
	var pods []corev1.Pod
	for _, p := range w.WaitBound("fleet", 17) {
		if metav1.GetControllerOf(&p).Name == "second" {
			pods = append(pods, p)
		}
	}
	require.Len(t, pods, 5)
	w.RequireExactPods(pods, split.New(60, 2))
}

func TestThePodsOfAThirdPartyOwnerHaveTheMixOfTheirOwnAnnotations(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	owned := newFleet(w, "annotated")
	requireRefill(w, "fleet", split.New(60, 2), owned, func(t *corev1.PodTemplateSpec) {
		maps.Copy(t.Annotations, builders.MixAnnotations(60, 2))
	})
}
