// SPDX-License-Identifier: Apache-2.0

package alpha_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// requestEviction is a request of someone else (KEP-4563), which may be withdrawn.
func requestEviction(w *testenv.World, pod *corev1.Pod) {
	w.T.Helper()
	r := &lifecyclev1alpha1.EvictionRequest{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Spec: lifecyclev1alpha1.EvictionRequestSpec{
		Target:    lifecyclev1alpha1.EvictionRequestTarget{Pod: &lifecyclev1alpha1.EvictionRequestPodReference{Name: pod.Name, UID: pod.UID}},
		Requester: "example.com/drain", Intent: lifecyclev1alpha1.EvictionRequestIntentEviction,
	}}
	_, err := w.Kube.LifecycleV1alpha1().EvictionRequests(w.Namespace).Create(w.Ctx, r, metav1.CreateOptions{})
	require.NoError(w.T, err)
}

// A request evicts nothing by itself: the replica keeps its slot until it terminates. Moves evict through pods/eviction as before.
func TestRequestsToEvictChangeNoSlotAndNoMove(t *testing.T) {
	w := newWorld(t, testenv.Roomy()...)
	web := builders.Deployment("web", 6)
	w.Create(builders.CapacityMix("web", 50, 0), web)
	pods := w.RequireExact("web", split.New(50, 0), 6)
	for i := range pods {
		requestEviction(w, &pods[i])
	}
	before := w.Slots(pods)
	now := w.Slots(w.ScaleExactly(web, split.New(50, 0), 10))
	for slot, p := range before {
		assert.Equal(t, p.UID, now[slot].UID, "slot %d", slot)
	}

	w.Controller(testenv.Impatient)
	w.ChangeMix("web", func(cm *v1alpha1.CapacityMix) { cm.Spec.SpotPercent = 20 })
	w.WaitExact("web", split.New(20, 0), 10, 90*time.Second)
	assert.Positive(t, w.Evicted())
}
