// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/test/plugintest"
)

// runner is a pod of an owner that has one pod.
func runner(i int) *corev1.Pod {
	pod := plugintest.Pod("web", i)
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "example.com/v1", Kind: "Runner", Name: pod.Name, UID: types.UID("runner-" + pod.Name), Controller: new(true),
	}}
	return pod
}

func bySelector(cm *v1alpha1.CapacityMix) { cm.Spec.Group = v1alpha1.PodGroupingSelector }

func byUnitLabel(cm *v1alpha1.CapacityMix) {
	cm.Spec.Unit = &v1alpha1.PodUnit{Type: v1alpha1.PodUnitLabel, LabelKey: "unit"}
}

// place runs a cycle up to Reserve on a node of the slot's type, or of the other one, and has the watch deliver the pod as bound.
func (f *fixture) place(t *testing.T, pod *corev1.Pod) (slot int, on capacity.Type) {
	t.Helper()
	state := framework.NewCycleState()
	_, status := f.plugin.PreFilter(f.ctx, state, pod, f.infos)
	require.True(t, status.IsSuccess(), "%v", status)
	s := readState(state)
	node := map[capacity.Type]string{capacity.Spot: "s", capacity.OnDemand: "o"}[s.slotType]
	require.True(t, f.plugin.Reserve(f.ctx, state, pod, node).IsSuccess())
	f.bound(t, pod, node, s.slot)
	return s.slot, s.slotType
}

func (f *fixture) bound(t *testing.T, pod *corev1.Pod, node string, slot int) {
	t.Helper()
	pod.Spec.NodeName = node
	pod.Annotations = map[string]string{v1alpha1.SlotAnnotation: fmt.Sprint(slot)}
	f.cluster.SetPods(t, pod)
	f.addPod(pod)
}

func runners(n int) (pods []*corev1.Pod) {
	for i := range n {
		pods = append(pods, runner(i))
	}
	return pods
}

func TestOwnersOfOnePodAreOneGroupBySelector(t *testing.T) {
	pods := runners(10)
	f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 70, 2, bySelector))
	count := map[capacity.Type]int{}
	for i, pod := range pods {
		slot, on := f.place(t, pod)
		assert.Equal(t, i, slot)
		count[on]++
	}
	assert.Equal(t, map[capacity.Type]int{capacity.Spot: 7, capacity.OnDemand: 3}, count)
}

// Pods that run are moved from group to group when the mix has another one.
func TestAChangeOfTheGroupIsOneOfAllPods(t *testing.T) {
	pods := runners(6)
	f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pods...)...)
	cm := plugintest.CapacityMix("web", 50, 0)
	f.mix(t, cm)
	for i, pod := range pods[:5] {
		slot, _ := f.place(t, pod)
		require.Equal(t, 0, slot, "pod %d is a group of its own", i)
	}
	groups, _ := f.plugin.Ledger.Size()
	require.Equal(t, 5, groups)

	f.changeMix(plugintest.CapacityMix("web", 50, 0, bySelector))
	groups, _ = f.plugin.Ledger.Size()
	assert.Equal(t, 1, groups)
	slot, on := f.place(t, pods[5])
	assert.Equal(t, 1, slot, "one of the others keeps slot 0, which they all had, and they run on on-demand")
	assert.Equal(t, capacity.Spot, on)

	f.changeMix(cm)
	assert.Eventually(t, func() bool { // a namespace pauses after a change
		groups, all := f.plugin.Ledger.Size()
		return groups == 6 && all == 6
	}, 10*time.Second, time.Millisecond)
}

// A scheduler that starts sees pods before their owners and mixes.
func TestPodsThatWereSeenBeforeTheirOwnersAreGroupedByTheTop(t *testing.T) {
	byTop := func(cm *v1alpha1.CapacityMix) { cm.Spec.Group = v1alpha1.PodGroupingTop }
	f := newFixture(t, plugintest.Args(), twoNodes)
	f.mix(t, plugintest.CapacityMix("web", 50, 0, byTop))
	for i, set := range []string{"web-a", "web-b"} {
		pod := plugintest.OwnedPod(fmt.Sprint("pod-", set), set)
		pod.Labels = map[string]string{"app": "web"}
		f.bound(t, pod, "o", i)
	}
	groups, _ := f.plugin.Ledger.Size()
	require.Equal(t, 2, groups)
	for _, set := range []string{"web-a", "web-b"} {
		rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: set, UID: types.UID(set), OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Name: "web", UID: "rollout", Controller: new(true),
		}}}}
		require.NoError(t, f.cluster.Informers.Apps().V1().ReplicaSets().Informer().GetIndexer().Add(rs))
		f.plugin.OwnerHandler().OnAdd(rs, false)
	}
	groups, _ = f.plugin.Ledger.Size()
	assert.Equal(t, 1, groups, "both ReplicaSets belong to one Rollout")
	assert.True(t, f.plugin.Ledger.Has(governing.GroupKey{Namespace: "shop", ID: "rollout~web"}))
}

func inUnit(pod *corev1.Pod, unit string) *corev1.Pod {
	pod.Labels["unit"] = unit
	return pod
}

func TestAPodOfAUnitRunsWhereTheUnitRuns(t *testing.T) {
	pods := []*corev1.Pod{
		inUnit(plugintest.Pod("web", 0), "a"), inUnit(plugintest.Pod("web", 1), "a"), inUnit(plugintest.Pod("web", 2), "a"),
		inUnit(plugintest.Pod("web", 3), "b"),
	}
	f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 100, 0, byUnitLabel))
	f.bound(t, pods[0], "o", 0) // it borrowed
	state, got := f.filter(t, pods[1])
	assert.Equal(t, 0, readState(state).slot)
	assert.Nil(t, got["o"])
	assert.Equal(t, "node(s) are spot, the unit of the pod runs on on-demand", got["s"].Message())
	_, allowed := readState(state).governing.MayBorrow(capacity.OnDemand)
	assert.False(t, allowed)

	f.plugin.Ledger.SetAttempt(pods[2].UID, 0, ledger.Attempt{Stage: ledger.StageBorrow})
	_, got = f.filter(t, pods[2])
	assert.NotNil(t, got["s"], "a wait that is over does not split the unit")

	slot, on := f.place(t, pods[3])
	assert.Equal(t, 1, slot)
	assert.Equal(t, capacity.Spot, on)
}

func TestReserveRefusesToSplitAUnit(t *testing.T) {
	pods := []*corev1.Pod{inUnit(plugintest.Pod("web", 0), "a"), inUnit(plugintest.Pod("web", 1), "a")}
	f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 100, 0, byUnitLabel))
	state := framework.NewCycleState()
	_, status := f.plugin.PreFilter(f.ctx, state, pods[1], f.infos)
	require.True(t, status.IsSuccess())
	f.bound(t, pods[0], "o", 0)
	status = f.plugin.Reserve(f.ctx, state, pods[1], "s")
	assert.False(t, status.IsSuccess(), "the other pod was bound to on-demand meanwhile")
}

func TestARoleHasAGroupOfItsOwn(t *testing.T) {
	driver := plugintest.Pod("web", 0)
	driver.Labels["role"] = "driver"
	pods := []*corev1.Pod{driver, plugintest.Pod("web", 1), plugintest.Pod("web", 2)}
	f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 100, 0, func(cm *v1alpha1.CapacityMix) {
		cm.Spec.Roles = []v1alpha1.MixRole{{
			Name: "driver", CapacityType: v1alpha1.CapacityTypeOnDemand,
			Selector: v1alpha1.PodSelector{MatchLabels: map[string]string{"role": "driver"}},
		}}
	}))
	for i, want := range []capacity.Type{capacity.OnDemand, capacity.Spot, capacity.Spot} {
		_, on := f.place(t, pods[i])
		assert.Equal(t, want, on)
	}
	groups, _ := f.plugin.Ledger.Size()
	assert.Equal(t, 2, groups)
}

// The mix of a namespace with many pods may change all the time.
func TestRegroupingPausesLikeActivation(t *testing.T) {
	pods := runners(2000)
	f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pods...)...)
	for i, pod := range pods {
		f.bound(t, pod, "o", i)
	}
	began := time.Now()
	for i := range 200 {
		cm := plugintest.CapacityMix("web", int32(i%100), 0, bySelector)
		f.changeMix(cm)
	}
	perChange := time.Since(began) / 200
	t.Logf("%s for each change of the mix of %d pods", perChange, len(pods))
	assert.Eventually(t, func() bool {
		groups, _ := f.plugin.Ledger.Size()
		return groups == 1
	}, 10*time.Second, time.Millisecond)
}

func TestAPodOfTheGroupThatIsGoneQueuesThePodsThatWait(t *testing.T) {
	pods := runners(3)
	pods[2].Labels = map[string]string{"app": "other"}
	f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 70, 2, bySelector))
	f.mix(t, plugintest.CapacityMix("other", 70, 2, bySelector))
	for _, pod := range pods {
		f.filter(t, pod)
	}
	for pod, want := range map[*corev1.Pod]fwk.QueueingHint{pods[1]: fwk.Queue, pods[2]: fwk.QueueSkip} {
		hint, err := f.plugin.podDeleted(klog.Background(), pod, pods[0], nil)
		require.NoError(t, err)
		assert.Equal(t, want, hint, pod.Labels)
	}
}

func TestAPodIsCountedByTheDefaultOfItsProfile(t *testing.T) {
	pods := []*corev1.Pod{plugintest.Pod("web", 0), plugintest.Pod("web", 1)}
	f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pods...)...)
	f.plugin.AddProfile("second", f.plugin.Resolver(&governing.Mix{Source: governing.SourceDefault}))
	for i, scheduler := range []string{"second", "another one"} {
		pods[i].OwnerReferences, pods[i].Spec.SchedulerName = nil, scheduler
		f.bound(t, pods[i], "o", i)
	}
	assert.True(t, f.plugin.Ledger.Has(governing.GroupKey{Namespace: "shop", ID: governing.SourceDefault}))
	_, all := f.plugin.Ledger.Size()
	assert.Equal(t, 1, all)
}

func TestOthersOfAUnitAreActivatedWhenOneIsNotBound(t *testing.T) {
	pods := []*corev1.Pod{inUnit(plugintest.Pod("web", 0), "a"), inUnit(plugintest.Pod("web", 1), "a")}
	f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 100, 0, byUnitLabel))
	state, _ := f.filter(t, pods[0])
	require.Nil(t, f.plugin.Reserve(f.ctx, state, pods[0], "s"))
	f.filter(t, pods[1])
	f.plugin.Unreserve(f.ctx, state, pods[0], "s")
	assert.Equal(t, map[string]int{"shop/web-1": 1}, f.cluster.Activated.Pods())
}
