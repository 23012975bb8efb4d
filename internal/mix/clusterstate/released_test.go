// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
)

func released(p *corev1.Pod) {
	p.OwnerReferences[0].Controller = nil
	ownedByDeployment := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "web", Controller: new(true)}
	p.OwnerReferences = append(p.OwnerReferences, ownedByDeployment)
	p.Spec.ActiveDeadlineSeconds = new(int64(3600))
	delete(p.Annotations, v1alpha1.SlotAnnotation)
	annotated(v1alpha1.ReleasedAnnotation, pods.Release{ReplicaSet: "uid-web-1", Group: "uid-web-1"}.Value(p.UID))(p)
}

func TestAReleasedPodIsInNoGroupUntilItIsGone(t *testing.T) {
	st := newClusterState()
	st.SetNode(nodeOf("s", capacity.Spot))
	var changed []string
	st.Changed = func(k governing.GroupKey) { changed = append(changed, k.ID) }
	rs := replicaSet("web-1", 2)
	st.SetOwner(rs)
	a, b := podNamed("a", owned(rs), on("s"), slot(2), ready), podNamed("b", owned(rs), on("s"), slot(3), ready)
	st.SetPod(a)
	st.SetPod(b)
	key := governing.GroupKey{Namespace: namespaceName, ID: string(rs.UID)}
	require.Len(t, st.Group(key).Assignments, 2)

	changed = nil
	after := a.DeepCopy()
	released(after)
	st.SetPod(after)
	assert.Contains(t, changed, key.ID, "its former group is decided again")
	require.Len(t, st.Group(key).Assignments, 1)
	require.Len(t, st.Released(namespaceName), 1)
	from, is := st.Released("")[0].ReleasedFrom()
	assert.True(t, is)
	assert.Equal(t, pods.Release{ReplicaSet: "uid-web-1", Group: "uid-web-1"}, from)
	assert.Equal(t, []types.UID{a.UID}, st.Group(key).Leaving)
	assert.Empty(t, st.Placeholders(""))
	crew := st.CrewOf(namespaceName, rs.UID)
	assert.Equal(t, 2, crew.Asked)
	require.Len(t, crew.Live, 1, "it is not of its ReplicaSet any more")
	assert.Equal(t, []Place{Settled}, crew.Places)

	changed = nil
	terminating(after)
	st.SetPod(after)
	assert.Empty(t, st.Released(namespaceName), "it was evicted")
	assert.Contains(t, changed, key.ID, "another one may be released")
	assert.Empty(t, st.Group(key).Leaving)
}

func TestAPodThatAUserMarksIsNotEvicted(t *testing.T) {
	st := newClusterState()
	p := podNamed("a", on("s"), annotated(v1alpha1.ReleasedAnnotation, pods.Release{ReplicaSet: "rs", Group: "rs"}.Value("uid-a")))
	st.SetPod(p)
	assert.Empty(t, st.Released(""))
}

func TestAReplicaSetThatIsGoneRequestsNoPods(t *testing.T) {
	st := newClusterState()
	rs := replicaSet("web-1", 2)
	assert.Zero(t, st.CrewOf(namespaceName, rs.UID).Asked)
	st.SetOwner(rs)
	assert.Equal(t, 2, st.CrewOf(namespaceName, rs.UID).Asked)
	assert.Zero(t, st.CrewOf("another", rs.UID).Asked)
	rs.DeletionTimestamp = &metav1.Time{Time: epoch}
	st.SetOwner(rs)
	assert.Zero(t, st.CrewOf(namespaceName, rs.UID).Asked)
}

func TestAReplicaOnADepartingNodeHasItsCause(t *testing.T) {
	for taint, want := range map[string]capacity.Cause{
		"aws-node-termination-handler/spot-itn": capacity.Interruption, "karpenter.sh/disrupted": capacity.Autoscaler, "": "",
	} {
		st := newClusterState()
		st.SetNode(nodeOf("s", capacity.Spot, func(n *corev1.Node) {
			if taint != "" {
				n.Spec.Taints = []corev1.Taint{{Key: taint, Effect: corev1.TaintEffectNoSchedule}}
			}
		}))
		rs := replicaSet("web-1", 2)
		st.SetOwner(rs)
		st.SetPod(podNamed("a", owned(rs), on("s"), slot(2), ready))
		g := st.Group(governing.GroupKey{Namespace: namespaceName, ID: string(rs.UID)})
		require.Len(t, g.Assignments, 1)
		assert.Equal(t, want, g.Assignments[0].Cause, taint)
	}
}

// A node that is being drained may be reclaimed before the drain has ended: its replicas wait for nothing then.
func TestANoticeCountsOnANodeThatIsDrained(t *testing.T) {
	st := newClusterState()
	taints := func(keys ...string) {
		st.SetNode(nodeOf("s", capacity.Spot, func(n *corev1.Node) {
			for _, key := range keys {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
			}
		}))
	}
	const scaleDown, notice = "ToBeDeletedByClusterAutoscaler", "cloud.google.com/impending-node-termination"
	taints(scaleDown)
	rs := replicaSet("web-1", 1)
	st.SetOwner(rs)
	st.SetPod(podNamed("a", owned(rs), on("s"), slot(2), ready))
	cause := func() capacity.Cause {
		g := st.Group(governing.GroupKey{Namespace: namespaceName, ID: string(rs.UID)})
		require.Len(t, g.Assignments, 1)
		return g.Assignments[0].Cause
	}
	assert.Equal(t, capacity.Autoscaler, cause())
	taints(scaleDown, notice)
	assert.Equal(t, capacity.Interruption, cause())
	assert.Equal(t, capacity.Autoscaler, st.Node("s").Cause, "for storms, the departure has the cause that it began with")
}
