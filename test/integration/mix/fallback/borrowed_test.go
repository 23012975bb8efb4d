// SPDX-License-Identifier: Apache-2.0

package fallback_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestABorrowedPodSaysSoAndTheOthersSayNothing(t *testing.T) {
	types := []string{spot, onDemand}
	w := testenv.New(t)
	seen := w.RecordAll()
	for _, wants := range types {
		l := testenv.Lane(wants)
		w.AddNodes(l.Node("own", wants, fmt.Sprint(room)), l.Node("foreign", other(wants), "16"))
		w.Create(builders.CapacityMix(wants, allOf(wants), 0, spotThenOnDemand, onDemandThenSpot), builders.Deployment(wants, pods, oneCPU, l.Pods))
	}
	for _, wants := range types {
		w.Run(wants+" slots", func(t *testing.T, w *testenv.World) {
			bound := seen.WaitBound(wants, pods, testenv.SettleTimeout)
			slots, borrowed := map[int]bool{}, 0
			for _, s := range bound {
				slot, ok := policy.ClaimedSlot(s.Pod)
				require.True(t, ok, "%s has a slot in the event that shows its node", s.Pod.Name)
				slots[slot] = true
				assert.Equal(t, wants, s.Pod.Annotations[v1alpha1.CapacityTypeAnnotation], "the type of the slot, not of the node")
				assert.Equal(t, policy.SourceCapacityMix+wants, s.Pod.Annotations[v1alpha1.MixAnnotation])
				assert.Equal(t, fmt.Sprintf("-%d", slot), s.Pod.Annotations[v1alpha1.PodDeletionCostAnnotation])
				if s.Pod.Spec.NodeName == testenv.Lane(wants).Name("foreign") {
					borrowed++
					requireBorrowedEvent(w, s.Pod, slot, wants)
				}
			}
			for slot := range pods {
				assert.True(t, slots[slot], "slot %d is held", slot)
			}
			assert.Equal(t, pods-room, borrowed, "borrowed pods")
			// The events of the borrowed pods are there, so those of the others would be too.
			for _, s := range bound {
				if s.Pod.Spec.NodeName == testenv.Lane(wants).Name("own") {
					assert.Empty(t, w.BerthEvents(s.Pod.Name), "events of Berth on a pod that runs on its type")
				}
			}
		})
	}
}

func requireBorrowedEvent(w *testenv.World, pod *corev1.Pod, slot int, wants string) {
	w.T.Helper()
	var events []corev1.Event
	w.Eventually("the borrowed pod has an event", func() (bool, string) {
		events = w.BerthEvents(pod.Name)
		return len(events) > 0, "none"
	})
	require.Len(w.T, events, 1)
	e := events[0]
	assert.Equal(w.T, v1alpha1.EventReasonBorrowed, e.Reason)
	assert.Equal(w.T, corev1.EventTypeNormal, e.Type)
	assert.Equal(w.T, pod.UID, e.InvolvedObject.UID)
	assert.Equal(w.T, fmt.Sprintf("Scheduled on %s node %s: no %s capacity for slot %d", other(wants), pod.Spec.NodeName, wants, slot), e.Message)
}
