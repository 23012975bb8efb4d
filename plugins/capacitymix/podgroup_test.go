// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/plugins/capacitymix/stages"
	"berth.dev/berth/plugins/internal/perscheduler"
	"berth.dev/berth/test/plugintest"
)

// groupCycle is a scheduling cycle of a pod group.
type groupCycle struct {
	t                *testing.T
	f                *fixture
	group, placement *framework.CycleState
	undo             []func()
	states           []*framework.CycleState
}

func (f *fixture) groupCycle(t *testing.T) *groupCycle {
	c := &groupCycle{t: t, f: f, group: framework.NewCycleState(), placement: framework.NewCycleState()}
	c.placement.SetPodGroupSchedulingCycle(c.group)
	return c
}

// try runs a member's part of the cycle, in which only a node may have free capacity. It returns whether Filter lets the pod run
// there, and its slot.
func (c *groupCycle) try(pod *corev1.Pod, node string) (slot int, fits bool) {
	c.t.Helper()
	state := framework.NewCycleState()
	state.SetPodGroupSchedulingCycle(c.group)
	state.SetPlacementCycleState(c.placement)
	result, status := c.f.plugin.PreFilter(c.f.ctx, state, pod, c.f.infos)
	require.True(c.t, status.IsSuccess(), "%v", status)
	assert.Nil(c.t, result, "a member is not tried on a sample: there is no second attempt in the cycle")
	slot = readState(state).slot
	for _, info := range c.f.infos {
		if info.Node().Name == node {
			fits = c.f.plugin.Filter(c.f.ctx, state, pod, info) == nil
		}
	}
	if !fits {
		return slot, false
	}
	require.Nil(c.t, c.f.plugin.Reserve(c.f.ctx, state, pod, node))
	c.states = append(c.states, state)
	c.undo = append(c.undo, func() { c.f.plugin.Unreserve(c.f.ctx, state, pod, node) })
	return slot, true
}

// end takes back what the cycle has reserved, as the scheduler does whether the group fits or not.
func (c *groupCycle) end() {
	for i := range c.undo {
		c.undo[len(c.undo)-1-i]()
	}
}

// fail has the plugin decide what follows, for a group with a message in its condition.
func (c *groupCycle) fail(condition string) *fwk.Status {
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "group"}}
	if condition != "" {
		group.Status.Conditions = []metav1.Condition{{
			Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: metav1.ConditionFalse, Message: condition,
			LastTransitionTime: metav1.NewTime(plugintest.Noon.Add(-time.Hour)),
		}}
	}
	c.end()
	_, status := c.f.plugin.PodGroupPostFilter(c.f.ctx, c.group, &framework.PodGroupInfo{
		Namespace: "shop", Name: "group", Type: fwk.PodGroupKeyType, PodGroup: group, UnscheduledPods: podGroup(1),
	}, nil)
	return status
}

// podGroup are pods of a PodGroup.
func podGroup(n int) (pods []*corev1.Pod) {
	for i := range n {
		p := plugintest.Pod("web", i)
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("group")}
		pods = append(pods, p)
	}
	return pods
}

func (f *fixture) held() int {
	_, pods := f.plugin.Ledger.Size()
	return pods
}

func TestMembersOfAGroupGetASlotEachInOneCycle(t *testing.T) {
	pods := podGroup(10)
	f := webFixture(t, 50, pods...)
	nodeOf := func(slot int) string { return []string{"o", "s"}[slot%2] }
	for range 2 { // the second cycle gives the same slots
		c := f.groupCycle(t)
		for i, p := range pods {
			slot, fits := c.try(p, nodeOf(i))
			assert.True(t, fits)
			assert.Equal(t, i, slot)
		}
		assert.Equal(t, 10, f.held())
		c.end()
		assert.Zero(t, f.held(), "the cycle leaves nothing behind")
		if t.Failed() {
			return
		}
		c.undo = nil
		for i, state := range c.states { // the group fits: each is bound
			state.SetPodGroupSchedulingCycle(nil)
			require.Nil(t, f.plugin.Reserve(f.ctx, state, pods[i], nodeOf(i)))
		}
		assert.Equal(t, 10, f.held())
		f.plugin.Unreserve(f.ctx, c.states[3], pods[3], nodeOf(3)) // its binding failed
		assert.Equal(t, 9, f.held())
		for _, p := range pods {
			f.plugin.Ledger.Forget(p.UID)
		}
	}
}

func TestAMemberIsTriedOnAllNodesOfItsType(t *testing.T) {
	var nodes []*corev1.Node
	for i := range 40 {
		nodes = append(nodes, plugintest.Node(plugintest.NodeName("s", i), "spot"))
	}
	pods, single := podGroup(2), plugintest.Pod("web", 7)
	args := plugintest.Args()
	args.NodeSampleSize = 16
	f := newFixture(t, args, nodes, plugintest.Objects(append(pods, single)...)...)
	f.mix(t, plugintest.CapacityMix("web", 100, 0))
	sample, _ := f.plugin.PreFilter(f.ctx, framework.NewCycleState(), single, f.infos)
	require.NotNil(t, sample, "a single pod is tried on a sample first")
	ungated := f.ungate(t, withGate(pods[1]))
	c := f.groupCycle(t)
	for _, p := range []*corev1.Pod{pods[0], ungated} {
		_, fits := c.try(p, "s-39")
		assert.True(t, fits)
	}
	c.end()
}

func withGate(pod *corev1.Pod) *corev1.Pod {
	gated := pod.DeepCopy()
	gated.ResourceVersion = "5"
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}}
	return gated
}

func TestAMemberWhoseSlotWasTakenMeanwhileIsTriedAgain(t *testing.T) {
	pods := podGroup(1)
	other := plugintest.Pod("web", 7)
	f := webFixture(t, 50, append(pods, other)...)
	c := f.groupCycle(t)
	_, fits := c.try(pods[0], "o")
	require.True(t, fits)
	c.end()
	f.filter(t, other) // claims slot 0
	c.states[0].SetPodGroupSchedulingCycle(nil)
	assert.Equal(t, ErrReasonSlotLost, f.plugin.Reserve(f.ctx, c.states[0], pods[0], "o").Message())
	assert.Equal(t, 1, f.held())
}

func TestAMemberOfAGroupIsNotPlacedAlone(t *testing.T) {
	pods := podGroup(1)
	f := webFixture(t, 50, pods...)
	_, status := f.plugin.PreFilter(f.ctx, framework.NewCycleState(), pods[0], f.infos)
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
	assert.Equal(t, perscheduler.ErrReasonGroupsOff, status.Message())
	assert.Zero(t, f.held())
}

func TestAGroupBorrowsAfterTheWaitAndOnlyForThoseWithoutCapacity(t *testing.T) {
	pods := podGroup(4)
	f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 100, 0, func(cm *v1alpha1.CapacityMix) { cm.Spec.SpotWaitSeconds = new(int32(60)) }))
	clock := testingclock.NewFakePassiveClock(plugintest.Noon)
	f.plugin.clock = clock
	// A cycle in which spot has capacity for two, and on-demand for all. The first that does not fit ends it.
	cycle := func() (placed int, c *groupCycle) {
		c = f.groupCycle(t)
		for i, p := range pods {
			node := "s"
			if i >= 2 {
				node = "o"
			}
			if _, fits := c.try(p, node); !fits {
				return i, c
			}
		}
		return len(pods), c
	}
	placed, c := cycle()
	assert.Equal(t, 2, placed)
	status := c.fail("")
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code(), "nothing is preempted during the wait")
	assert.Equal(t, "spot has had no capacity for this pod since 2026-11-21T12:00:00Z, on-demand is allowed from 2026-11-21T12:01:00Z", status.Message())

	assert.Equal(t, 1, f.plugin.Timers.Len(), "it is tried when the wait ends")

	clock.SetTime(plugintest.Noon.Add(59 * time.Second))
	placed, c = cycle()
	assert.Equal(t, 2, placed)
	c.fail("")
	clock.SetTime(plugintest.Noon.Add(time.Minute))
	placed, c = cycle()
	assert.Equal(t, 2, placed, "the wait is over when a cycle has failed after it")
	status = c.fail("")
	assert.Equal(t, "trying on-demand nodes next", status.Message())
	require.Eventually(t, func() bool { return f.cluster.Activated.Pods()["shop/web-0"] == 1 }, 10*time.Second, 10*time.Millisecond,
		"it is tried soon, whatever its back-off is")

	c = f.groupCycle(t)
	_, fits := c.try(pods[0], "o")
	assert.False(t, fits, "spot had capacity for the first two")
	_, fits = c.try(pods[1], "s")
	assert.True(t, fits)
	_, fits = c.try(pods[2], "o")
	assert.True(t, fits)
	c.end()

	placed, c = cycle()
	require.Equal(t, 4, placed)
	c.end()
	c.states[0].SetPodGroupSchedulingCycle(nil)
	require.Nil(t, f.plugin.Reserve(f.ctx, c.states[0], pods[0], "s"))
	assert.Zero(t, f.plugin.Searches.Of(types.NamespacedName{Namespace: "shop", Name: "group"}, capacity.Spot), "the group is placed: the search is over")
}

// Spot has room for a part of a unit, and on-demand for all of it: a unit is on one type, so it borrows as a whole.
func TestAGroupThatIsAUnitBorrowsAsAWhole(t *testing.T) {
	pods := podGroup(4)
	f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 100, 0, func(cm *v1alpha1.CapacityMix) {
		cm.Spec.Unit = &v1alpha1.PodUnit{Type: v1alpha1.PodUnitSchedulingGroup}
	}))
	c := f.groupCycle(t)
	for i, node := range []string{"s", "s", "o"} {
		_, fits := c.try(pods[i], node)
		assert.Equal(t, i < 2, fits, "spot has room for two, and the third follows them")
	}
	assert.Equal(t, "trying on-demand nodes next", c.fail("").Message())

	c = f.groupCycle(t)
	_, fits := c.try(pods[0], "s")
	assert.False(t, fits, "the place on spot is of no use")
	for i, p := range pods {
		slot, fits := c.try(p, "o")
		assert.True(t, fits, "pod %d", i)
		assert.Zero(t, slot)
	}
	c.end()

	c = f.groupCycle(t)
	_, fits = c.try(pods[0], "o")
	require.True(t, fits)
	_, fits = c.try(pods[1], "s") // on-demand has room for one
	assert.False(t, fits)
	assert.Equal(t, fwk.Unschedulable, c.fail("").Code(), "preemption has its turn")
	c = f.groupCycle(t)
	_, fits = c.try(pods[0], "s")
	assert.True(t, fits, "and spot is tried again")
	c.end()
}

// A unit that runs is not on two types.
func TestAGroupWhoseUnitRunsDoesNotBorrow(t *testing.T) {
	pods := podGroup(3)
	f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 100, 0, func(cm *v1alpha1.CapacityMix) {
		cm.Spec.Unit = &v1alpha1.PodUnit{Type: v1alpha1.PodUnitSchedulingGroup}
	}))
	c := f.groupCycle(t)
	_, fits := c.try(pods[0], "s")
	require.True(t, fits)
	c.end()
	c.states[0].SetPodGroupSchedulingCycle(nil)
	require.Nil(t, f.plugin.Reserve(f.ctx, c.states[0], pods[0], "s"))
	for range 2 {
		c = f.groupCycle(t)
		_, fits = c.try(pods[1], "o")
		assert.False(t, fits)
		assert.Equal(t, fwk.Unschedulable, c.fail("").Code())
	}
}

func TestAGroupThatMayNotBorrowLeavesTheTurnToPreemption(t *testing.T) {
	pods := podGroup(1)
	f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 0, 0)) // on-demand, which waits
	c := f.groupCycle(t)
	_, fits := c.try(pods[0], "s")
	assert.False(t, fits)
	assert.Equal(t, fwk.Unschedulable, c.fail("").Code())

	idle := f.groupCycle(t)
	assert.Equal(t, fwk.Unschedulable, idle.fail("").Code(), "no member has a mix")
}

func TestTheWaitOfAGroupGoesOnAfterARestart(t *testing.T) {
	pods := podGroup(1)
	f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 100, 0, func(cm *v1alpha1.CapacityMix) { cm.Spec.SpotWaitSeconds = new(int32(60)) }))
	f.plugin.clock = testingclock.NewFakePassiveClock(plugintest.Noon)
	c := f.groupCycle(t)
	c.try(pods[0], "o")
	status := c.fail("minCount (1) cannot be satisfied, " + stages.NoCapacity(capacity.Spot, plugintest.Noon.Add(-time.Minute)))
	assert.Equal(t, "trying on-demand nodes next", status.Message())
	f.deletePod(pods[0])
	assert.Zero(t, f.plugin.Searches.Of(types.NamespacedName{Namespace: "shop", Name: "group"}, capacity.Spot), "the search ends with a member")
}
