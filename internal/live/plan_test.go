// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
)

// narrow has capacity for so many pods.
type narrow struct {
	capacity int
	asked    []simulation.Question
	assumed  []string
}

func (n *narrow) Fits(_ context.Context, q simulation.Question) (simulation.Answer, error) {
	n.asked = append(n.asked, q)
	return simulation.Answer{Fits: len(n.assumed) < n.capacity, Node: "s1"}, nil
}

func (n *narrow) FitAll(_ context.Context, all []simulation.Question) (answers []simulation.Answer, err error) {
	n.asked = append(n.asked, all...)
	for i := range all {
		if answers = append(answers, simulation.Answer{Fits: len(n.assumed)+i < n.capacity, Node: fmt.Sprint("s", i)}); !answers[i].Fits {
			break
		}
	}
	return answers, nil
}

func (n *narrow) Assume(pod *corev1.Pod, _ string) { n.assumed = append(n.assumed, pod.Name) }

// clusterOf has some pods.
func clusterOf(t *testing.T, names ...string) (c *overview.Cluster, members []*clusterstate.Pod) {
	t.Helper()
	s, err := Defaults()
	require.NoError(t, err)
	var pods []*corev1.Pod
	for _, name := range names {
		p := &corev1.Pod{}
		p.Namespace, p.Name, p.UID = "shop", name, types.UID(name)
		pods = append(pods, p)
	}
	c = overview.NewCluster(s, pods, nil, nil, nil, nil)
	for _, name := range names {
		members = append(members, c.State.Pod("shop", name))
	}
	return c, members
}

// Half of a unit does not run: its capacity is that of all pods, and nothing is kept for one that does not fit.
func TestTheCapacityOfAUnitIsThatOfAllItsPods(t *testing.T) {
	c, members := clusterOf(t, "leader", "worker", "other")
	n := &narrow{capacity: 1}
	room := &replayed{snapshot: n, cluster: c}
	unit := members[:2]
	proof, err := room.Prove(t.Context(), unit, capacity.Spot)
	require.NoError(t, err)
	assert.False(t, proof.Fits)
	assert.Contains(t, proof.Why, "no spot node has capacity for the replacement of pod worker beside 1 other of its unit")
	assert.Empty(t, n.assumed)
	require.Len(t, n.asked, 2)
	for _, q := range n.asked {
		assert.ElementsMatch(t, []types.UID{"leader", "worker"}, q.Gone, "both are gone once one of them starts again")
	}
	n.capacity = 3
	proof, err = room.Prove(t.Context(), unit, capacity.Spot)
	require.NoError(t, err)
	assert.Equal(t, overview.Proof{Fits: true, Nodes: []string{"s0", "s1"}}, proof)
	assert.Equal(t, []string{"leader", "worker"}, n.assumed)
	proof, err = room.Prove(t.Context(), members[2:], capacity.Spot)
	require.NoError(t, err)
	assert.True(t, proof.Fits)
	assert.ElementsMatch(t, []types.UID{"leader", "worker", "other"}, n.asked[len(n.asked)-1].Gone, "those of the move before are gone")

	c.Pods[0].Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	proof, err = (&replayed{snapshot: n, cluster: c}).Prove(t.Context(), unit, capacity.Spot)
	require.NoError(t, err)
	assert.Contains(t, proof.Why, "claims of devices", "as the controller has it")
}

// The owners of units are read with the rights of the user, and only theirs: each once.
func TestAUserReadsTheOwnersOfUnits(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"}
	set := &unstructured.Unstructured{}
	set.SetGroupVersionKind(gvk)
	set.SetNamespace("shop")
	set.SetName("llm")
	require.NoError(t, unstructured.SetNestedField(set.Object, "RecreateGroupOnPodRestart", "spec", "leaderWorkerTemplate", "restartPolicy"))
	require.NoError(t, unstructured.SetNestedField(set.Object, int64(4), "spec", "replicas"))
	var answer error
	calls := 0
	api := fake.NewClientBuilder().WithObjects(set).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if calls++; answer != nil {
				return answer
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
	var warnings []string
	u := &User{Client: api, Warn: func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }}
	owner := clusterstate.Workload{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: "shop", Name: "llm"}
	read := u.owners()
	for range 2 {
		assert.Equal(t, rebalance.Scale{Restart: rebalance.RestartWhole, Replicas: 4, Known: true}, read(t.Context(), owner))
	}
	assert.Equal(t, 1, calls)
	answer = apierrors.NewForbidden(schema.GroupResource{}, "llm", nil)
	assert.Equal(t, rebalance.Scale{}, u.owners()(t.Context(), owner), "without the right it is unknown")
	assert.Empty(t, warnings)
	answer = errors.New("the conversion webhook is away")
	assert.Equal(t, rebalance.Scale{}, u.owners()(t.Context(), owner))
	assert.Equal(t, []string{"cannot read the restart policy of LeaderWorkerSet llm: the conversion webhook is away"}, warnings)
}
