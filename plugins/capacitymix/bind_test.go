// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	apicache "k8s.io/kubernetes/pkg/scheduler/backend/api_cache"
	apidispatcher "k8s.io/kubernetes/pkg/scheduler/backend/api_dispatcher"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	apicalls "k8s.io/kubernetes/pkg/scheduler/framework/api_calls"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/plugins/capacitymix/state"
	"berth.dev/berth/plugins/internal/cyclestate"
	"berth.dev/berth/test/plugintest"
)

// maxBindings may be in progress in these tests.
const maxBindings = 16

// slowBindings is a fixture whose API server answers bindings when the test sends an answer.
func slowBindings(t *testing.T, pods []*corev1.Pod) (f *fixture, asked *atomic.Int32, answer chan struct{}) {
	t.Helper()
	f = newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 100, 0))
	asked, answer = &atomic.Int32{}, make(chan struct{})
	f.plugin.Bindings = state.NewBindings(maxBindings, time.Hour)
	f.cluster.React("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked.Add(1)
		<-answer
		return true, nil, nil
	})
	for _, pod := range pods {
		cycle, _ := f.filter(t, pod)
		require.Nil(t, f.plugin.Reserve(f.ctx, cycle, pod, "s"))
		go f.plugin.Bind(f.ctx, cycle, pod, "s")
	}
	return f, asked, answer
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	require.Eventually(t, is, 10*time.Second, time.Millisecond, what)
}

func TestBindingsUnderWayAreBounded(t *testing.T) {
	var pods []*corev1.Pod
	for i := range maxBindings {
		pods = append(pods, plugintest.Pod("web", i))
	}
	f, asked, answer := slowBindings(t, pods)
	// The fake client makes one call at a time; the others wait in it.
	eventually(t, "all have their turn", func() bool { return f.plugin.Bindings.InProgress() == maxBindings })

	started := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		close(started)
		ended <- f.plugin.Bindings.Do(f.ctx, func() error { return nil })
	}()
	<-started
	next := plugintest.Pod("web", maxBindings)
	f.cluster.SetPods(t, next)
	cycle, _ := f.filter(t, next)
	reserved := make(chan bool, 1)
	go func() { reserved <- f.plugin.Reserve(f.ctx, cycle, next, "s").IsSuccess() }()
	select {
	case <-ended:
		t.Fatal("one binding more than there may be")
	case <-reserved:
		t.Fatal("the cycle of a pod ended although no more bindings can be made")
	case <-time.After(20 * time.Millisecond): // there is nothing to wait for
	}
	answer <- struct{}{}
	answer <- struct{}{}
	require.NoError(t, <-ended)
	assert.True(t, <-reserved)
	close(answer)
	eventually(t, "every binding was made", func() bool { return asked.Load() == maxBindings && f.plugin.Bindings.InProgress() == 0 })
}

// A process that may not lead any more binds nothing. Package ungate has the same test for its writes.
func TestBehindAShutFenceNothingIsBound(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f := webFixture(t, 50, pod)
	cycle, _ := f.filter(t, pod)
	require.Nil(t, f.plugin.Reserve(f.ctx, cycle, pod, "o"))
	bindings := func() (n int) {
		for _, a := range f.cluster.Client.Actions() {
			if a.GetSubresource() == "binding" {
				n++
			}
		}
		return n
	}
	ctx, end := context.WithCancel(f.ctx)
	f.fenced.Store(true)
	time.AfterFunc(time.Millisecond, end) // as the process ends a moment later
	f.plugin.Bind(ctx, cycle, pod, "o")
	require.ErrorIs(t, ctx.Err(), context.Canceled, "it waits for the end")
	assert.Zero(t, bindings())
	f.fenced.Store(false)
	f.plugin.Bind(f.ctx, cycle, pod, "o")
	assert.Equal(t, 1, bindings())
}

// With the feature gate SchedulerAsyncAPICalls (KEP-5229) the scheduler queues its writes. A Binding that did not go through that
// queue could come before an older status patch of its pod, which would then name a nominated node for a pod that has a node.
func TestABindingReplacesTheStatusPatchThatIsQueued(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f := webFixture(t, 50, pod)
	dispatcher := apidispatcher.New(f.cluster.Client, 1, apicalls.Relevances)
	f.framework.SetAPICacher(apicache.New(nil, cache.New(f.ctx, dispatcher, false, false)))
	cycle, _ := f.filter(t, pod)
	require.Nil(t, f.plugin.Reserve(f.ctx, cycle, pod, "o"))
	writes := func() (all []clienttesting.Action) {
		for _, a := range f.cluster.Client.Actions() {
			if a.GetVerb() != "list" && a.GetVerb() != "watch" {
				all = append(all, a)
			}
		}
		return all
	}

	patched, bound := make(chan error, 1), make(chan *fwk.Status, 1)
	nomination := &fwk.NominatingInfo{NominatedNodeName: "o", NominatingMode: fwk.ModeOverride}
	require.NoError(t, dispatcher.Add(apicalls.NewPodStatusPatchCall(pod, nil, nomination), fwk.APICallOptions{OnFinish: patched}))
	go func() { bound <- f.plugin.Bind(f.ctx, cycle, pod, "o") }()
	select {
	case err := <-patched:
		require.ErrorIs(t, err, fwk.ErrCallOverwritten)
	case <-bound:
		t.Fatal("the Binding did not go through the queue")
	}
	assert.Empty(t, writes(), "the queue is not processed yet")

	dispatcher.Run(klog.FromContext(f.ctx))
	defer dispatcher.Close()
	require.Nil(t, <-bound)
	require.Len(t, writes(), 1)
	assert.Equal(t, "0", bindingOf(t, writes()[0]).Annotations[v1alpha1.SlotAnnotation])
}

// While it is not known whether a Binding was made, its pod keeps its slot, also if a lower one is free; where it was refused, it takes the
// lower one.
func TestAPodWithoutAnAnswerToItsBindingKeepsItsSlot(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		slot int
	}{
		"no answer": {errors.New("stream error"), 1},
		"refused":   {apierrors.NewConflict(corev1.Resource("pods"), "web-1", errors.New("it changed")), 0},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := plugintest.Pod("web", 0), plugintest.Pod("web", 1)
			f := webFixture(t, 0, first, second)
			f.filter(t, first)
			cycle, _ := f.filter(t, second)
			require.Equal(t, 1, readState(cycle).slot)
			require.Nil(t, f.plugin.Reserve(f.ctx, cycle, second, "o"))
			f.deletePod(first)
			f.cluster.React("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, c.err })
			require.False(t, f.plugin.Bind(f.ctx, cycle, second, "o").IsSuccess())
			f.plugin.Unreserve(f.ctx, cycle, second, "o")
			cycle, _ = f.filter(t, second)
			assert.Equal(t, c.slot, readState(cycle).slot)
		})
	}
}

// A pod waits between Reserve and Bind, for its group, a lock or a volume, and its mix changes meanwhile.
func TestAPodIsNotBoundByAMixThatChangedMeanwhile(t *testing.T) {
	for name, test := range map[string]struct {
		change func(f *fixture, pod *corev1.Pod)
		want   string
	}{
		"no change": {change: func(*fixture, *corev1.Pod) {}},
		"a change that leaves the slot's type": {change: func(f *fixture, _ *corev1.Pod) {
			f.changeMix(plugintest.CapacityMix("web", 90, 0))
		}},
		"a mix that has the slot on the other type": {want: ErrReasonMixChanged, change: func(f *fixture, _ *corev1.Pod) {
			f.changeMix(plugintest.CapacityMix("web", 0, 0))
		}},
		"a mix that is deleted": {want: ErrReasonMixChanged, change: func(f *fixture, _ *corev1.Pod) {
			f.plugin.MixHandler().OnDelete(plugintest.CapacityMix("web", 100, 0))
		}},
		"another pod with the slot": {want: ErrReasonSlotLost, change: func(f *fixture, pod *corev1.Pod) {
			other := plugintest.Pod("web", 1)
			other.Spec.NodeName = "s"
			other.Annotations = map[string]string{v1alpha1.SlotAnnotation: "1"}
			other.CreationTimestamp = metav1.NewTime(pod.CreationTimestamp.Add(-time.Hour))
			f.addPod(other)
			f.changeMix(plugintest.CapacityMix("web", 90, 0))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			first, pod := plugintest.Pod("web", 2), plugintest.Pod("web", 0)
			f := webFixture(t, 100, first, pod)
			f.filter(t, first) // takes slot 0
			cycle, _ := f.filter(t, pod)
			require.Nil(t, f.plugin.Reserve(f.ctx, cycle, pod, "s"))
			require.NoError(t, cyclestate.Confirm(cycle, pod))
			test.change(f, pod)
			status := f.plugin.Bind(f.ctx, cycle, pod, "s")
			if test.want == "" {
				require.True(t, status.IsSuccess(), status.Message())
				return
			}
			assert.Equal(t, fwk.Unschedulable, status.Code())
			assert.Equal(t, test.want, status.Message())
			require.EqualError(t, cyclestate.Confirm(cycle, pod), test.want)
		})
	}
}

// A workload is created before its mix: the pods that are not bound yet follow the mix, those that select a type themselves do not.
func TestAPodThatIsNotBoundFollowsAMixThatComesLater(t *testing.T) {
	pod, pinned, other := plugintest.Pod("web", 0), plugintest.Pod("web", 1), plugintest.Pod("other", 0)
	pinned.Spec.NodeSelector = map[string]string{"karpenter.sh/capacity-type": "spot"}
	f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pod, pinned, other)...)
	place := func(pod *corev1.Pod) fwk.CycleState {
		state := framework.NewCycleState()
		_, status := f.plugin.PreFilter(f.ctx, state, pod, f.infos)
		require.True(t, status.IsSkip(), status)
		require.Nil(t, f.plugin.Reserve(f.ctx, state, pod, "s"))
		return state
	}
	states := map[*corev1.Pod]fwk.CycleState{pod: place(pod), pinned: place(pinned), other: place(other)}
	require.NoError(t, cyclestate.Confirm(states[pod], pod))
	f.plugin.MixHandler().OnAdd(plugintest.CapacityMix("web", 0, 0), false)
	require.EqualError(t, cyclestate.Confirm(states[pod], pod), ErrReasonMixChanged, "its group is not committed")
	status := f.plugin.Bind(f.ctx, states[pod], pod, "s")
	assert.Equal(t, fwk.Unschedulable, status.Code())
	assert.Equal(t, ErrReasonMixChanged, status.Message())
	for _, p := range []*corev1.Pod{pinned, other} {
		require.NoError(t, cyclestate.Confirm(states[p], p), p.Name)
		assert.True(t, f.plugin.Bind(f.ctx, states[p], p, "s").IsSkip(), p.Name)
	}
	f.plugin.Unreserve(f.ctx, states[pod], pod, "s")
	state, _ := f.filter(t, pod)
	assert.Equal(t, capacity.OnDemand, readState(state).slotType)
}

// The members of a group that is committed are bound by the mix that they had then, or without one: a part of a group would run
// without the rest.
func TestACommittedGroupIsBoundWhateverItsMixBecomes(t *testing.T) {
	t.Run("a mix that changes", func(t *testing.T) {
		pod := plugintest.Pod("web", 0)
		f := webFixture(t, 100, pod)
		cycle, _ := f.filter(t, pod)
		require.Nil(t, f.plugin.Reserve(f.ctx, cycle, pod, "s"))
		cyclestate.Commit(cycle)
		f.changeMix(plugintest.CapacityMix("web", 0, 0))
		require.True(t, f.plugin.Bind(f.ctx, cycle, pod, "s").IsSuccess())
	})
	t.Run("a mix that comes", func(t *testing.T) {
		pod := plugintest.Pod("web", 0)
		f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pod)...)
		state := framework.NewCycleState()
		_, status := f.plugin.PreFilter(f.ctx, state, pod, f.infos)
		require.True(t, status.IsSkip(), status)
		require.Nil(t, f.plugin.Reserve(f.ctx, state, pod, "s"))
		cyclestate.Commit(state)
		f.plugin.MixHandler().OnAdd(plugintest.CapacityMix("web", 0, 0), false)
		assert.True(t, f.plugin.Bind(f.ctx, state, pod, "s").IsSkip())
	})
}
