// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
)

func released(p *corev1.Pod) {
	p.OwnerReferences = nil
	delete(p.Annotations, v1alpha1.SlotAnnotation)
	annotated(v1alpha1.ReleasedAnnotation, pods.ReleasedValue(p.UID, "uid-web-1"))(p)
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
	group, is := st.Released("")[0].ReleasedFrom()
	assert.True(t, is)
	assert.Equal(t, "uid-web-1", group)
	assert.Empty(t, st.Placeholders(""))

	terminating(after)
	st.SetPod(after)
	assert.Empty(t, st.Released(namespaceName), "it was evicted")
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
