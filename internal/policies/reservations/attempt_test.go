// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
)

// The result of a dry run of the eviction of some pods is what the Holdings holds when they are gone, whatever their order.
func TestADryRunForeseesWhatIsHeldAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := rapid.IntRange(1, 5).Draw(t, "pods")
		object := reservation("r", replicas(int32(pods)), repeatedly)
		l := leader(object)
		for i := range pods {
			l.hold("r", began, "n1")
			l.SetPod(bound(pod(strconv.Itoa(i)), "r", "n1", began))
		}
		lowered := rapid.Int32Range(1, int32(pods)).Draw(t, "replicas")
		l.Set(next(object, replicas(lowered)))
		outsider := pod("outsider")
		outsider.Labels = map[string]string{"app": "other"}
		outsider.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list("5", "", "", "")}}}
		attempt, _ := l.Attempt(outsider, began)
		require.NotNil(t, attempt)
		gone := rapid.Permutation([]int{0, 1, 2, 3, 4}[:pods]).Draw(t, "order")[:rapid.IntRange(0, pods).Draw(t, "gone")]
		for _, i := range gone {
			attempt.Remove(types.UID(strconv.Itoa(i)))
		}
		_, foreseen := attempt.On(node("n1", "110"))
		for _, i := range gone {
			l.DeletePod(types.UID(strconv.Itoa(i)))
		}
		var then corev1.ResourceName
		if attempt, _ = l.Attempt(outsider, began); attempt != nil {
			_, then = attempt.On(node("n1", "110"))
		}
		require.Equal(t, then, foreseen)
	})
}

func TestAnAttemptIsClonedForEachNode(t *testing.T) {
	l := leader(reservation("r", replicas(1), repeatedly))
	l.hold("r", began, "n1")
	l.SetPod(bound(pod("a"), "r", "n1", began))
	a, _ := l.Attempt(pod("b"), began)
	require.NotNil(t, a)
	clone := a.Clone()
	clone.Remove("a")
	clone.Remove("a")
	clone.Remove("unknown")
	own, _ := clone.On(node("n1", "110"))
	require.NotNil(t, own, "it is held for this pod then")
	own, _ = a.On(node("n1", "110"))
	assert.Nil(t, own)
	clone.Add("a")
	assert.Empty(t, clone.gone)
	clone.RemoveMissing(func(node string, uid types.UID) bool { return node != "n1" || uid != "a" })
	assert.Len(t, clone.gone, 1)
}

func TestCapacityUsedForGoodIsNotHeldAgain(t *testing.T) {
	l := leader(reservation("r", replicas(2), func(s *v1alpha1.ReservationSpec) { s.AllocateOnce = nil }))
	l.hold("r", began, "n1", "n1")
	l.SetPod(bound(pod("a"), "r", "n1", began))
	require.True(t, l.Take(pod("b"), l.named("r").r, "n1", began))
	a, _ := l.Attempt(pod("c"), began)
	require.NotNil(t, a)
	a.Remove("a")
	assert.Empty(t, a.gone, "it was used once")
	a.Remove("b")
	assert.Len(t, a.gone, 1, "it is not bound yet, and gives it back")
}
