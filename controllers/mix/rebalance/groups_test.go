// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

// groupController is a strayController whose pods are one group, each of an owner of its own.
func groupController(t *testing.T, pods int, change func(*v1alpha1.CapacityMix)) (*fixture, *server) {
	t.Helper()
	p, s := strayController(t, 0, func(cm *v1alpha1.CapacityMix) {
		cm.Spec.Group, cm.Spec.Selector.MatchLabels = v1alpha1.PodGroupingSelector, map[string]string{"app": "web"}
		change(cm)
	})
	for i := range pods {
		pod := ownedAlone(i)
		s.pods[pod.Name] = pod
		p.State.SetPod(pod)
	}
	return p, s
}

func ownedAlone(i int) *corev1.Pod {
	pod := podOf("shop", sceneOwner{"runners.example/v1", "Runner", fmt.Sprint("runner", i)}, i, 0)
	pod.Labels["runner"], pod.Spec.NodeName = fmt.Sprint(i), "on-demand"
	return pod
}

func settings(*v1alpha1.CapacityMix) {}

var groupKey = governing.GroupKey{Namespace: "shop", ID: "capacitymix/web"}

// An owner of one pod makes another one, or another owner does.
func TestAGroupOfManyOwnersMovesItsPods(t *testing.T) {
	p, s := groupController(t, 3, settings)
	p.reconcile(t, "shop")
	assert.NotEmpty(t, s.evicted)
}

// The live pods before an eviction are those of the group, whoever owns them, and no others.
func TestTheLivePodsOfAGroupAreThoseOfAllItsOwners(t *testing.T) {
	p, s := groupController(t, 3, settings)
	other := ownedAlone(7)
	other.Labels["app"] = "db"
	s.pods[other.Name] = other
	p.reconcile(t, "shop")
	assert.NotEmpty(t, s.evicted, "a pod of another group is none of its business")

	p, s = groupController(t, 3, settings)
	unseen := ownedAlone(7)
	s.pods[unseen.Name] = unseen
	p.reconcile(t, "shop")
	assert.Empty(t, s.evicted)
	e, known := p.Workloads.Get(groupKey)
	require.True(t, known)
	assert.Equal(t, rebalance.ReasonStaleView, e.Held[string(e.Group.Assignments[0].Pod.UID)].Verdict.Reason)
}

// A list by what the pods have in common would miss the next one, which may lack it.
func TestTheLivePodsOfAGroupAreListedByTheSelectorOfItsMix(t *testing.T) {
	p, _ := groupController(t, 1, settings)
	g := p.State.Group(groupKey)
	require.NotNil(t, g)
	move := rebalance.Action{Selector: rebalance.SelectorOf(g), Of: rebalance.Entry{Group: *g, Mix: "web"}}
	selector, err := p.api.selectorOf(context.Background(), move)
	require.NoError(t, err)
	assert.Equal(t, "app=web", selector.String())
	move.Of.Mix = "gone"
	selector, err = p.api.selectorOf(context.Background(), move)
	require.NoError(t, err)
	assert.Empty(t, selector.String(), "all pods of the namespace")
}

// A unit of pods is not moved, and one of a single pod is.
func TestAUnitOfMorePodsStays(t *testing.T) {
	p, s := groupController(t, 0, func(cm *v1alpha1.CapacityMix) {
		cm.Spec.Unit = &v1alpha1.PodUnit{Type: v1alpha1.PodUnitLabel, LabelKey: "unit"}
	})
	for i, unit := range []string{"x", "x", "y"} {
		pod := ownedAlone(i)
		pod.Labels["unit"] = unit
		s.pods[pod.Name] = pod
		p.State.SetPod(pod)
	}
	p.reconcile(t, "shop")
	assert.Equal(t, []string{"runner2-2"}, s.evicted)
	delete(s.pods, "runner2-2")
	p.State.DeletePod(types.NamespacedName{Namespace: "shop", Name: "runner2-2"}, "")
	p.again(t, 2*p.MoveTimeout)
	p.again(t, p.MaxBackoff)
	e, _ := p.Workloads.Get(groupKey)
	assert.Equal(t, []string{"runner2-2"}, s.evicted)
	assert.Len(t, e.Group.Assignments, 1)
}

// The last pod of a group by the highest owner was evicted. Its mix is deleted, so that nothing leads from the owner to the group any
// more, and then the owner.
func TestAGroupByTheHighestOwnerEndsWithIt(t *testing.T) {
	p, s := strayController(t, 0, func(cm *v1alpha1.CapacityMix) { cm.Spec.Group = v1alpha1.PodGroupingTop })
	p.State.Changed = p.Changed
	for _, name := range []string{"deployment", "rs"} {
		p.State.SetOwner(ownerOf(metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("shop-" + name), Generation: 1}, 1, 1))
	}
	pod := podOf("shop", sceneOwners[0], 0, 0)
	pod.Spec.NodeName = "on-demand"
	s.pods[pod.Name] = pod
	p.State.SetPod(pod)
	p.reconcile(t, "shop")
	require.Equal(t, []string{pod.Name}, s.evicted)

	key := governing.GroupKey{Namespace: "shop", ID: "shop-deployment"}.Under("web")
	p.State.DeletePod(types.NamespacedName{Namespace: "shop", Name: pod.Name}, "")
	p.State.Mixes.Delete("shop", "web")
	p.reconcile(t, "shop")
	e, known := p.Workloads.Get(key)
	require.True(t, known, "its replacement may come")
	require.NotEmpty(t, e.Moves)

	p.State.DeleteOwner("shop-deployment")
	p.drain(t)
	_, known = p.Workloads.Get(key)
	assert.False(t, known)
}
