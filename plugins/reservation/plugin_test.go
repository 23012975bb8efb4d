// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/plugins/internal/cyclestate"
	"berth.dev/berth/test/builders"
)

func TestPreFilterCostsNothingWhereNothingIsHeld(t *testing.T) {
	f := newFixture(t)
	p, state := pod("web", "a"), framework.NewCycleState()
	result, status := f.plugin.PreFilter(f.Ctx, state, p, nil)
	assert.Nil(t, result)
	assert.True(t, status.IsSkip())
	assert.Nil(t, cyclestate.ReadReserved(state))
	assert.Empty(t, f.plugin.waiting.pods, "no pod is kept")
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = f.plugin.PreFilter(f.Ctx, state, p, nil) }))
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = f.plugin.SignPod(f.Ctx, p) }))
	assert.Nil(t, f.plugin.Filter(f.Ctx, state, p, node("n1")), "the framework does not call it after a Skip")
}

func TestPreFilterRestrictsThePodsForWhichCapacityIsHeld(t *testing.T) {
	f := newFixture(t)
	f.hold("later", "n1", "n2")
	inGroup := framework.NewCycleState()
	inGroup.SetPodGroupSchedulingCycle(framework.NewCycleState())
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		state *framework.CycleState
		want  sets.Set[string]
	}{
		"a pod that the Reservation selects": {pod: pod("web", "a"), state: framework.NewCycleState(), want: sets.New("n1", "n2")},
		"another pod":                        {pod: pod("other", "b"), state: framework.NewCycleState()},
		"a pod that is placed with a group":  {pod: pod("web", "c"), state: inGroup},
	} {
		t.Run(name, func(t *testing.T) {
			result, status := f.plugin.PreFilter(f.Ctx, tc.state, tc.pod, nil)
			assert.True(t, status.IsSuccess())
			assert.False(t, status.IsSkip(), "Filter keeps it off what is held")
			if tc.want == nil {
				assert.Nil(t, result)
			} else {
				assert.Equal(t, tc.want, result.NodeNames)
			}
			assert.Equal(t, tc.want != nil, cyclestate.ReadReserved(tc.state).Restricts())
		})
	}
}

func TestNoPodIsTriedBeforeTheReservationsAreKnown(t *testing.T) {
	p := pod("web", "a")
	f := unsynced(t)
	_, status := f.plugin.PreFilter(f.Ctx, framework.NewCycleState(), p, nil)
	require.EqualError(t, status.AsError(), ErrReasonNotSynced)
	assert.Equal(t, ErrReasonNotSynced, f.plugin.PreEnqueue(f.Ctx, p).Message())
	_, status = f.plugin.SignPod(f.Ctx, p)
	assert.Equal(t, ErrReasonNotSigned, status.Message())
	f.Start()
	require.Eventually(t, func() bool { return f.Activated.Pods()["shop/a"] == 1 }, 10*time.Second, time.Millisecond)
	_, status = f.plugin.PreFilter(f.Ctx, framework.NewCycleState(), p, nil)
	assert.True(t, status.IsSkip())
}

const onlyHeld = "node(s) hold capacity for other pods by Reservations: cpu"

func TestFilterKeepsPodsOffWhatIsHeldForOthers(t *testing.T) {
	f := newFixture(t)
	f.hold("later", "n1", "n1")
	for name, tc := range map[string]struct {
		app, node, want string
	}{
		"another pod where all is held":                 {app: "other", node: "n1", want: onlyHeld},
		"another pod where nothing is held":             {app: "other", node: "n2"},
		"a pod for which capacity is held":              {app: "web", node: "n1"},
		"a pod for which it is held, on another node":   {app: "web", node: "n2"},
		"a pod of another app, which is named like one": {app: "web-2", node: "n1", want: onlyHeld},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod(tc.app, "a")
			state, _ := f.try(p)
			status := f.plugin.Filter(f.Ctx, state, p, node(tc.node))
			assert.Equal(t, tc.want, status.Message())
			if tc.want != "" {
				assert.Equal(t, fwk.Unschedulable, status.Code(), "preemption can help")
				assert.NotSame(t, status, f.plugin.Filter(f.Ctx, state, p, node(tc.node)), "the framework writes to it")
			}
		})
	}
}

// running is a node on which a pod of the app web runs that requests a CPU, and another one.
func running(name string, pods ...*corev1.Pod) fwk.NodeInfo {
	i := node(name)
	for _, p := range pods {
		info, err := framework.NewPodInfo(p)
		if err != nil {
			panic(err)
		}
		i.AddPodInfo(info)
	}
	return i
}

// evict takes a pod off a node in a dry run of preemption, as DefaultPreemption does.
func (f *fixture) evict(tb testing.TB, state fwk.CycleState, n fwk.NodeInfo, victim *corev1.Pod) (back func()) {
	tb.Helper()
	info, err := framework.NewPodInfo(victim)
	require.NoError(tb, err)
	require.NoError(tb, n.RemovePod(klog.Background(), victim))
	x := f.plugin.PreFilterExtensions()
	require.True(tb, x.RemovePod(f.Ctx, state, nil, info, n).IsSuccess())
	return func() {
		n.AddPodInfo(info)
		require.True(tb, x.AddPod(f.Ctx, state, nil, info, n).IsSuccess())
	}
}

// With allocateOnce false the capacity is held again when its user is evicted: no eviction of it helps another pod.
func TestAnEvictionGivesCapacityBackToItsReservation(t *testing.T) {
	f := newFixture(t)
	r := f.hold("often", "n1")
	r = r.DeepCopy()
	r.ResourceVersion, r.Spec.AllocateOnce = "2", new(false)
	f.plugin.reservationHandler().OnUpdate(r, r)
	web, big := pod("web", "user"), pod("other", "big")
	web.Spec.NodeName = "n1"
	big.Spec.Containers[0].Resources.Requests = builders.Requests("2", "1Gi")
	f.reserve(t, web, "n1")

	state, _ := f.try(big)
	dry, n := state.Clone(), running("n1", web)
	back := f.evict(t, dry, n, web)
	assert.Equal(t, onlyHeld, f.plugin.Filter(f.Ctx, dry, big, n).Message(), "it is held again")
	assert.Nil(t, f.plugin.Filter(f.Ctx, dry, pod("other", "small"), node("n2")), "on another node it is not")
	back()
	assert.Nil(t, f.plugin.Filter(f.Ctx, dry, big, n), "nothing is held while it is used")
	assert.Nil(t, f.plugin.Filter(f.Ctx, state, big, n), "the cycle of the pod has no victims")

	own := pod("web", "own")
	own.Spec.Containers[0].Resources.Requests = builders.Requests("2", "1Gi")
	state, _ = f.try(own)
	f.evict(t, state, n, web)
	assert.Nil(t, f.plugin.Filter(f.Ctx, state, own, n), "it is held for this pod")
}

// For a group, PreFilter runs when the victims are removed, and AddPod without RemovePod for those that stay.
func TestVictimsOfAGroupAreMissingInTheSnapshot(t *testing.T) {
	f := newFixture(t)
	f.hold("later", "n1")
	web, big := pod("web", "user"), pod("other", "big")
	big.Spec.Containers[0].Resources.Requests = builders.Requests("2", "1Gi")
	f.reserve(t, web, "n1") // and is not bound yet: it may give it back
	state := framework.NewCycleState()
	state.SetPodGroupSchedulingCycle(framework.NewCycleState())
	f.plugin.PreFilter(f.Ctx, state, big, nil)
	n := node("n1")
	assert.Equal(t, onlyHeld, f.plugin.Filter(f.Ctx, state, big, n).Message())
	info, err := framework.NewPodInfo(web)
	require.NoError(t, err)
	f.plugin.AddPod(f.Ctx, state, big, info, n)
	assert.Nil(t, f.plugin.Filter(f.Ctx, state, big, n))
}

func TestTheViewOfACycleDoesNotChange(t *testing.T) {
	f := newFixture(t)
	r := f.hold("later", "n1", "n1")
	p := pod("other", "a")
	state, _ := f.try(p)
	f.plugin.reservationHandler().OnDelete(r)
	assert.Equal(t, onlyHeld, f.plugin.Filter(f.Ctx, state, p, node("n1")).Message())
	state, _ = f.try(p)
	assert.Nil(t, f.plugin.Filter(f.Ctx, state, p, node("n1")))
}

// A pod that cannot run where capacity is held for it is tried everywhere, until something changes.
func TestTheSecondAttemptIsNotRestricted(t *testing.T) {
	p := pod("web", "a")
	f := newFixture(t)
	f.hold("later", "n1")
	state, result := f.try(p)
	require.NotNil(t, result)
	_, status := f.plugin.PostFilter(f.Ctx, state, p, nil)
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code(), "nothing is preempted yet")
	assert.Equal(t, map[string]int{"shop/a": 1}, f.Activated.Take(), "it is tried again at once")

	for range 2 {
		state, result = f.try(p)
		assert.Nil(t, result)
		_, status = f.plugin.PostFilter(f.Ctx, state, p, nil)
		assert.Equal(t, fwk.Unschedulable, status.Code(), "others may preempt")
		assert.Empty(t, f.Activated.Take())
	}
	_, result = f.try(pod("web", "b"))
	assert.NotNil(t, result, "it is another pod")

	f.hold("more", "n2")
	_, result = f.try(p)
	require.NotNil(t, result, "more is held")
	assert.Equal(t, sets.New("n1", "n2"), result.NodeNames)
}

func TestPostFilterLeavesOtherPodsToPreemption(t *testing.T) {
	f := newFixture(t)
	p := pod("other", "a")
	_, status := f.plugin.PostFilter(f.Ctx, framework.NewCycleState(), p, nil)
	assert.Equal(t, fwk.Unschedulable, status.Code())
	f.hold("later", "n1")
	state, _ := f.try(p)
	_, status = f.plugin.PostFilter(f.Ctx, state, p, nil)
	assert.Equal(t, fwk.Unschedulable, status.Code())
	assert.Empty(t, f.Activated.Take())
}

func TestPodsForWhichCapacityIsHeldAreNotSigned(t *testing.T) {
	f := newFixture(t)
	p := pod("web", "a")
	signed := func(p *corev1.Pod) bool {
		fragments, status := f.plugin.SignPod(f.Ctx, p)
		assert.Empty(t, fragments)
		return status.IsSuccess()
	}
	assert.True(t, signed(p))
	f.hold("later", "n1")
	assert.False(t, signed(p))
	assert.True(t, signed(pod("other", "b")))
	f.reserve(t, pod("web", "c"), "n1")
	assert.True(t, signed(p), "another pod uses it")
	f.hold("more", "n1")
	f.advance(time.Hour)
	assert.True(t, signed(p), "it has expired")
}
