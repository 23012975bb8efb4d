// SPDX-License-Identifier: Apache-2.0

package podwebhook

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
)

// gated creates a pod and reports whether it got the gate.
func gated(t *testing.T, h *Handler, raw string) bool {
	t.Helper()
	spec, _ := at(patched(t, raw, ask(h, raw)), "spec").(map[string]any)
	return spec["schedulingGates"] != nil
}

// podOfReplicaSet is a pod whose owner has the UID a.
func podOfReplicaSet(namespace string) *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.OwnerReferences = namespace, []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", UID: "a", Controller: new(true)}}
	return p
}

// Pods come over another watch than their owners: what is not seen is read, once.
func TestAnOwnerThatIsNotSeenIsRead(t *testing.T) {
	w := &world{there: replicaSet("new", builders.MixAnnotations(70, 2))}
	h := gating(t, w)
	of := pod(t, "api", ownedBy("ReplicaSet", "new"))
	assert.True(t, gated(t, h, of))
	assert.True(t, gated(t, h, of))
	assert.Equal(t, 1, w.reads)

	gone := pod(t, "api", ownedBy("StatefulSet", "gone"))
	assert.False(t, gated(t, h, gone))
	assert.False(t, gated(t, h, gone))
	assert.Equal(t, 2, w.reads, "that it is not there is remembered too")

	assert.False(t, gated(t, h, pod(t, "api", ownedBy("Rollout", "foreign"))))
	assert.Equal(t, 2, w.reads, "kinds that are not watched are not read")
	w.seen = replicaSet("new", nil)
	assert.False(t, gated(t, h, of), "what was seen is newer")
}

// A mix is often applied together with its workload.
func TestAMixThatIsNotSeenIsReadOnceForEachOwner(t *testing.T) {
	w := &world{mixes: []v1alpha1.CapacityMix{*tolerant("web"), *tolerant("late")}, seen: replicaSet("a", nil)}
	h := gating(t, w)
	late := pod(t, "late", ownedBy("ReplicaSet", "a"))
	assert.True(t, gated(t, h, late))
	require.NoError(t, h.Mixes.Store.Set(tolerant("late")))
	assert.True(t, gated(t, h, late), "the watch has brought it")
	assert.Equal(t, 1, w.lists)

	w.seen = replicaSet("b", nil)
	none := pod(t, "none", ownedBy("ReplicaSet", "b"))
	for range 3 {
		assert.False(t, gated(t, h, none))
	}
	assert.Equal(t, 2, w.lists, "once for an owner that nothing governs")
	assert.False(t, gated(t, h, pod(t, "none")))
	assert.False(t, gated(t, h, pod(t, "none", ownedBy("DaemonSet", "d"))))
	assert.Equal(t, 2, w.lists, "not for pods without an owner, or of a DaemonSet")
}

// The API server's answers are waited for, but not for long, and the pod is created.
func TestWithoutAnswersThePodFollowsItsCachedMixes(t *testing.T) {
	failing := &world{apiErr: errors.New("down")}
	h := gating(t, failing)
	raw := pod(t, "api", ownedBy("ReplicaSet", "a"))
	assert.False(t, gated(t, h, raw))
	failing.apiErr, failing.there = nil, replicaSet("a", builders.MixAnnotations(70, 2))
	assert.True(t, gated(t, h, raw), "a failure is not remembered")

	blocked := gating(t, &world{block: true})
	start := time.Now()
	assert.False(t, gated(t, blocked, raw))
	assert.Less(t, time.Since(start), 2*patience, "the API server waits 3 s in all")

	full := gating(t, &world{there: replicaSet("a", builders.MixAnnotations(70, 2))})
	require.True(t, full.Mixes.turns.all.TryAcquire(readsAtOnce))
	found, _ := full.Mixes.For(over(t), podOfReplicaSet("shop"))
	assert.Nil(t, found, "too many questions are out")
}

func TestBeforeTheMixesAreReadThePodGetsNothingOfThem(t *testing.T) {
	w := &world{unread: true}
	h := gating(t, w, limit("small", nil))
	raw := pod(t, "web", builders.OfSize("small"))
	r := ask(h, raw)
	assert.Equal(t, []string{"berth: the CapacityMixes are not read yet: the pod gets nothing of them"}, r.Warnings)
	assert.False(t, gated(t, h, raw))
	assert.Equal(t, builders.Scheduler, at(patched(t, raw, r), "spec", "schedulerName"), "its size is applied")
}

// The user who writes an annotation that cannot be read gets a warning; the owner's are in the scheduler's events.
func TestAnInvalidAnnotationCausesAWarning(t *testing.T) {
	bad := map[string]string{v1alpha1.SpotPercentAnnotation: "many"}
	h := gating(t, &world{seen: replicaSet("a", bad)})
	r := ask(h, pod(t, "api", builders.PodAnnotation(v1alpha1.SpotPercentAnnotation, "many")))
	require.Len(t, r.Warnings, 1)
	assert.Contains(t, r.Warnings[0], `berth.dev/spot-percent: "many" is invalid`)
	assert.Empty(t, ask(h, pod(t, "api", ownedBy("ReplicaSet", "a"))).Warnings)
}

// A client that reaches the port can send reviews with any owner. They hide no owner from the pods that have it.
func TestAForgedReviewHidesNoOwner(t *testing.T) {
	w := &world{}
	h := gating(t, w)
	assert.False(t, gated(t, h, pod(t, "api", ownedBy("StatefulSet", "new"))))
	w.there = replicaSet("new", builders.MixAnnotations(70, 2))
	assert.True(t, gated(t, h, pod(t, "api", ownedBy("ReplicaSet", "new"))), "another kind is another owner")

	w = &world{mixes: []v1alpha1.CapacityMix{*tolerant("late")}, seen: replicaSet("a", nil)}
	h = gating(t, w)
	assert.False(t, gated(t, h, pod(t, "none", ownedBy("ReplicaSet", "a"))))
	assert.True(t, gated(t, h, pod(t, "late", ownedBy("ReplicaSet", "a"))), "pods with other labels may have a mix")
}

// The UID of an owner does not lead into another namespace.
func TestAnOwnerIsOfTheNamespaceOfItsPod(t *testing.T) {
	w := &world{seen: replicaSet("a", builders.MixAnnotations(70, 2))}
	h := gating(t, w)
	found, _ := h.Mixes.For(t.Context(), podOfReplicaSet("shop"))
	assert.NotNil(t, found)
	found, _ = h.Mixes.For(t.Context(), podOfReplicaSet("thief"))
	assert.Nil(t, found)
}
