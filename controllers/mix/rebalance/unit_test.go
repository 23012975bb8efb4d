// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
)

var lwsKey = governing.GroupKey{Namespace: "shop", ID: "LeaderWorkerSet.leaderworkerset.x-k8s.io/vllm/of/capacitymix/web"}

// together has capacity for so many pods at the same time, and keeps the questions.
type together struct {
	roomy
	capacity int
	asked    *[]simulation.Question
}

func (s together) FitAll(_ context.Context, all []simulation.Question) (answers []simulation.Answer, err error) {
	*s.asked = all
	for i := range all {
		if answers = append(answers, simulation.Answer{Fits: i < s.capacity, Node: "spot"}); i >= s.capacity {
			break
		}
	}
	return answers, nil
}

// lwsController has a LeaderWorkerSet with one group of two pods on on-demand, which belongs on spot.
func lwsController(
	t *testing.T, capacity int, change ...func(*v1alpha1.CapacityMix),
) (*fixture, *server, *[]simulation.Question) {
	t.Helper()
	p, s := strayController(t, 0, change...)
	asked := &[]simulation.Question{}
	p.proof.take = func(context.Context) (snapshot, error) { return together{roomy{}, capacity, asked}, nil }
	for i, owner := range []string{"vllm", "vllm-0"} {
		pod := podOf("shop", sceneOwner{"apps/v1", "StatefulSet", owner}, i, 0)
		pod.Name, pod.UID = fmt.Sprint("pod-", i), types.UID(fmt.Sprint("uid-", i))
		for key, value := range map[string]string{"name": "vllm", "group-index": "0", "group-key": "k", "worker-index": fmt.Sprint(i)} {
			pod.Labels["leaderworkerset.sigs.k8s.io/"+key] = value
		}
		pod.Spec.NodeName = "on-demand"
		s.pods[pod.Name] = pod
		p.State.SetPod(pod)
	}
	return p, s, asked
}

func (p *fixture) restarts(how rebalance.Restart) {
	p.readAtOnce(func(context.Context, clusterstate.Workload) (rebalance.Scale, error) {
		return rebalance.Scale{Restart: how}, nil
	})
}

// One decision, one proof for all pods, and one eviction: the operator does the rest.
func TestAGroupOfALeaderWorkerSetMovesAsAWhole(t *testing.T) {
	p, s, asked := lwsController(t, 2)
	p.restarts(rebalance.RestartWhole)
	var how *metav1.DeletionPropagation
	p.Client.(*kubefake.Clientset).PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if e, is := a.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction); is {
			how = e.DeleteOptions.PropagationPolicy
		}
		return false, nil, nil
	})
	p.reconcile(t, "shop")
	require.Equal(t, []string{"pod-0"}, s.evicted, "the leader alone is evicted")
	require.NotNil(t, how)
	assert.Equal(t, metav1.DeletePropagationForeground, *how, "the workers end before the next leader is created")
	require.Len(t, *asked, 2)
	for _, q := range *asked {
		assert.ElementsMatch(t, []types.UID{"uid-0", "uid-1"}, q.Gone, "both are gone once one of them starts again")
	}
	e, known := p.Workloads.Get(lwsKey)
	require.True(t, known)
	assert.Equal(t, 2, e.InFlight())

	assert.ElementsMatch(t, []types.UID{"uid-0", "uid-1"}, p.proof.evicted(&e), "both count as gone for other proofs")

	delete(s.pods, "pod-0") // the worker is still there
	p.State.DeletePod(types.NamespacedName{Namespace: "shop", Name: "pod-0"}, "")
	p.again(t, rebalance.HoldRefused)
	e, _ = p.Workloads.Get(lwsKey)
	assert.Len(t, e.Moves, 1, "the move is not over, and the worker is not moved on its own")
	assert.Len(t, s.evicted, 1)
}

func TestAGroupOfALeaderWorkerSetStays(t *testing.T) {
	for name, c := range map[string]struct {
		capacity int
		restarts rebalance.Restart
		want     *rebalance.Reason
	}{
		"there is capacity for one of its pods":       {1, rebalance.RestartWhole, rebalance.ReasonInsufficientCapacity},
		"its operator does not create all pods again": {2, rebalance.RestartSingle, rebalance.ReasonUnitWouldRestart},
		"what its operator does is not known":         {2, rebalance.RestartUnknown, rebalance.ReasonUnitWouldRestart},
	} {
		t.Run(name, func(t *testing.T) {
			p, s, _ := lwsController(t, c.capacity)
			p.restarts(c.restarts)
			p.reconcile(t, "shop")
			assert.Empty(t, s.evicted)
			e, _ := p.Workloads.Get(lwsKey)
			assert.Equal(t, c.want, e.Verdict.Reason, e.Verdict.Message)
		})
	}
	p, s, _ := lwsController(t, 2) // nobody reads
	p.reconcile(t, "shop")
	assert.Empty(t, s.evicted)
}

// A user scales while a group is being moved: the move ends with the groups that are there then.
func TestTheMoveOfAGroupFollowsTheScaleOfItsSet(t *testing.T) {
	p, s, _ := lwsController(t, 2)
	groups := 1
	p.readAtOnce(func(context.Context, clusterstate.Workload) (rebalance.Scale, error) {
		return rebalance.Scale{Restart: rebalance.RestartWhole, Replicas: groups, Known: true}, nil
	})
	p.reconcile(t, "shop")
	require.Len(t, s.evicted, 1)
	for _, groups = range []int{1, 4, 2} {
		p.again(t, scaleAge)
		e, _ := p.Workloads.Get(lwsKey)
		assert.Equal(t, groups, e.Had)
	}
}

// A set that lacks groups gets them first.
func TestNoGroupMovesWhileOneIsMissing(t *testing.T) {
	p, s, _ := lwsController(t, 2)
	p.readAtOnce(func(context.Context, clusterstate.Workload) (rebalance.Scale, error) {
		return rebalance.Scale{Restart: rebalance.RestartWhole, Replicas: 2, Known: true}, nil
	})
	p.reconcile(t, "shop")
	assert.Empty(t, s.evicted)
	e, _ := p.Workloads.Get(lwsKey)
	assert.Equal(t, rebalance.ReasonReplicasMissing, e.Verdict.Reason, e.Verdict.Message)
}

// A webhook of a tenant may hold each pod for as long as a call may take, and the worker decides for all tenants.
func TestTheProofOfAUnitEndsInTime(t *testing.T) {
	p, s, _ := lwsController(t, 2)
	p.restarts(rebalance.RestartWhole)
	s.on["get"] = func() error { // of the first pod
		p.setTime(p.Clock.Now().Add(unitTimeout + time.Second))
		return nil
	}
	p.reconcile(t, "shop")
	assert.Empty(t, s.evicted)
	e, _ := p.Workloads.Get(lwsKey)
	assert.Equal(t, rebalance.ReasonCapacityUnproven, e.Verdict.Reason)
	assert.Contains(t, e.Verdict.Message, "1 of 2 pods of unit")
	assert.Zero(t, p.clusterNow().GraceUntil, "it is no outage")
}

// The devices of one pod are not counted for the next.
func TestAUnitWithClaimsOfDevicesStays(t *testing.T) {
	p, s, _ := lwsController(t, 2)
	p.restarts(rebalance.RestartWhole)
	for _, pod := range s.pods {
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	}
	p.reconcile(t, "shop")
	assert.Empty(t, s.evicted)
	e, _ := p.Workloads.Get(lwsKey)
	assert.Contains(t, e.Verdict.Message, "claims of devices")
}

func TestTheRestartPolicyOfALeaderWorkerSetIsRead(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"}
	owner := clusterstate.Workload{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: "shop", Name: "vllm"}
	for policy, want := range map[string]rebalance.Scale{
		"RecreateGroupOnPodRestart": {Restart: rebalance.RestartWhole, Replicas: 7, Known: true},
		"RecreateGroupAfterStart":   {Restart: rebalance.RestartSingle},
		"None":                      {Restart: rebalance.RestartSingle},
		"":                          {Restart: rebalance.RestartSingle},
	} {
		set := &unstructured.Unstructured{}
		set.SetGroupVersionKind(gvk)
		set.SetNamespace("shop")
		set.SetName("vllm")
		require.NoError(t, unstructured.SetNestedField(set.Object, policy, "spec", "leaderWorkerTemplate", "restartPolicy"))
		require.NoError(t, unstructured.SetNestedField(set.Object, int64(7), "spec", "replicas"))
		s, err := readScales(fake.NewClientBuilder().WithObjects(set).Build())(t.Context(), owner)
		require.NoError(t, err)
		assert.Equal(t, want, s, policy)
	}
	answering := func(err error) client.Client {
		return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return err
			},
		}).Build()
	}
	s, err := readScales(answering(apierrors.NewForbidden(schema.GroupResource{}, "vllm", nil)))(t.Context(), owner)
	require.NoError(t, err)
	assert.Equal(t, rebalance.Scale{Restart: rebalance.RestartUnknown}, s, "without the right it is not known")
	_, err = readScales(answering(context.DeadlineExceeded))(t.Context(), owner)
	require.Error(t, err)
}

// What holds for the decision is read again before the eviction.
func TestARestartPolicyThatChangesDuringAProofHoldsTheMove(t *testing.T) {
	p, s, _ := lwsController(t, 2)
	how := rebalance.RestartWhole
	p.readAtOnce(func(context.Context, clusterstate.Workload) (rebalance.Scale, error) {
		return rebalance.Scale{Restart: how}, nil
	})
	s.on["get"] = func() error { // the proof begins
		how = rebalance.RestartSingle
		p.scales.answers = map[governing.GroupKey]scaleAnswer{}
		return nil
	}
	p.reconcile(t, "shop")
	assert.Empty(t, s.evicted)
	e, _ := p.Workloads.Get(lwsKey)
	assert.Equal(t, rebalance.ReasonUnitWouldRestart, e.Verdict.Reason)
}
