// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/plugintest"
)

// waiting is a context that calls a function when a wait begins by it.
type waiting struct {
	context.Context //nolint:containedctx // of the test
	call            func()
}

func (w *waiting) Deadline() (time.Time, bool) {
	if call := w.call; call != nil {
		w.call = nil
		call()
	}
	return w.Context.Deadline()
}

// tried runs PreFilter of a pod.
func (f *fixture) tried(ctx context.Context, pod *corev1.Pod) (fwk.CycleState, *fwk.Status) {
	state := framework.NewCycleState()
	_, status := f.plugin.PreFilter(ctx, state, pod, f.infos)
	return state, status
}

// A cycle has found the mix of a pod and waits for the ledger. Meanwhile the mix gets another group, where another pod has slot 0.
func TestAPodClaimsNoSlotInTheGroupOfAFormerMix(t *testing.T) {
	pods := runners(2)
	f := webFixture(t, 50, pods...)
	f.place(t, pods[0])
	pods[1].ResourceVersion = "9"
	_, status := f.tried(&waiting{f.ctx, func() {
		f.changeMix(plugintest.CapacityMix("web", 50, 0, bySelector))
		f.plugin.Progress.Advance("9")
	}}, pods[1])
	assert.Equal(t, fwk.Unschedulable, status.Code(), "%v", status)
	assert.Equal(t, []string{ErrReasonMixChanged}, status.Reasons())
	assert.Equal(t, 1, f.cluster.Activated.Pods()["shop/web-1"], "it is tried again at once")
	slot, _ := f.place(t, pods[1])
	assert.Equal(t, 1, slot)
}

// The pods of a large namespace are moved after a pause where its mix changes often. A new pod would find its group empty.
func TestAPodWaitsUntilTheOthersAreInItsGroup(t *testing.T) {
	many := make([]*corev1.Pod, 3000)
	for i := range many {
		many[i] = plugintest.Pod("other", i)
	}
	pods := runners(2)
	f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(append(many, pods...)...)...)
	byNone := func(cm *v1alpha1.CapacityMix) { cm.Spec.Group = v1alpha1.PodGroupingController }
	f.mix(t, plugintest.CapacityMix("web", 50, 0, bySelector))
	f.place(t, pods[0])
	f.changeMix(plugintest.CapacityMix("web", 50, 0, byNone))     // at once
	f.changeMix(plugintest.CapacityMix("web", 50, 0, bySelector)) // after the pause
	_, status := f.tried(f.ctx, pods[1])
	require.Equal(t, []string{ErrReasonRegrouping}, status.Reasons())
	require.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
	require.Eventually(t, func() bool { return f.cluster.Activated.Pods()["shop/web-1"] > 0 }, 20*time.Second, time.Millisecond)
	slot, _ := f.place(t, pods[1])
	assert.Equal(t, 1, slot, "the other pod has slot 0")
}

// Between Reserve and the moment when the watch shows it, a pod has its slot in the new group, too.
func TestAPodThatIsBeingBoundHasItsSlotInTheNewGroup(t *testing.T) {
	pods := runners(2)
	f := webFixture(t, 50, pods...)
	state, status := f.tried(f.ctx, pods[0])
	require.True(t, status.IsSuccess(), "%v", status)
	require.True(t, f.plugin.Reserve(f.ctx, state, pods[0], "o").IsSuccess())
	f.changeMix(plugintest.CapacityMix("web", 50, 0, bySelector))
	require.NoError(t, readState(state).Confirm(pods[0]), "it is bound")
	slot, _ := f.place(t, pods[1])
	assert.Equal(t, 1, slot)
	f.bound(t, pods[0], "o", 0)
	groups, all := f.plugin.Ledger.Size()
	assert.Equal(t, []int{1, 2}, []int{groups, all})
}

// What a pod claimed in its former group is not its slot in the new one.
func TestAPodIsNotReservedInTheGroupOfAFormerMix(t *testing.T) {
	pods := runners(2)
	f := webFixture(t, 50, pods...)
	f.place(t, pods[0])
	state, status := f.tried(f.ctx, pods[1]) // slot 0 of a group of its own
	require.True(t, status.IsSuccess(), "%v", status)
	f.changeMix(plugintest.CapacityMix("web", 50, 0, bySelector))
	status = f.plugin.Reserve(f.ctx, state, pods[1], "o")
	assert.Equal(t, []string{ErrReasonMixChanged}, status.Reasons())
	slot, _ := f.place(t, pods[1])
	assert.Equal(t, 1, slot)
}

// A patch that gives a pod its slot is on its way while the mix changes.
func TestAPodThatIsBeingUngatedHasItsSlotInTheNewGroup(t *testing.T) {
	pods := runners(2)
	for _, pod := range pods {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}}
	}
	f := webFixture(t, 50, pods...)
	_, _, err := f.ungater.Patch(pods[0])
	require.NoError(t, err)
	f.changeMix(plugintest.CapacityMix("web", 50, 0, bySelector))
	patch, _, err := f.ungater.Patch(pods[1])
	require.NoError(t, err)
	assert.Equal(t, "1", plugintest.Patched(t, pods[1], patch).Annotations[v1alpha1.SlotAnnotation])
}
