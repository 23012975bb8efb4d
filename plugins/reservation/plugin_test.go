// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/plugins/internal/reservationstate"
)

func TestPreFilterCostsNothingWhereNothingIsHeld(t *testing.T) {
	f := newFixture(t)
	p, state := pod("web", "a"), framework.NewCycleState()
	result, status := f.plugin.PreFilter(f.Ctx, state, p, nil)
	assert.Nil(t, result)
	assert.True(t, status.IsSkip())
	assert.Nil(t, reservationstate.Read(state))
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
			assert.Equal(t, tc.want != nil, reservationstate.Read(tc.state).Restricts())
			assert.Same(t, read(tc.state), read(tc.state.Clone()), "preemption changes nothing in it")
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
