// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
	"berth.dev/berth/internal/mix/policy"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

func gatedPod(app string, i int) *corev1.Pod {
	p := testPod(app, i)
	p.ResourceVersion = "5"
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}}
	return p
}

// known makes a pod one that the API server is known to have.
func (f *fixture) known(tb rapidTB, pods ...*corev1.Pod) {
	for _, p := range pods {
		require.NoError(tb, f.framework.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer().Add(p))
	}
}

// rapidTB is what a test and a property have in common.
type rapidTB interface {
	Errorf(format string, args ...any)
	FailNow()
}

func (f *fixture) watcher() *watcher {
	return newWatcher(f.plugin.shared, klog.Background(), f.activated.Activate)
}

// open gives a pod its slot as the opener does, and returns the pod as the API server then has it.
func (f *fixture) open(tb rapidTB, pod *corev1.Pod) *corev1.Pod {
	change, _, err := f.plugin.opener.change(pod)
	require.NoError(tb, err)
	patch, err := gate.Patch(pod, change)
	require.NoError(tb, err)
	before, err := json.Marshal(pod)
	require.NoError(tb, err)
	text, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Pod{})
	require.NoError(tb, err)
	after := &corev1.Pod{}
	require.NoError(tb, json.Unmarshal(text, after))
	f.watcher().pod(after)
	return after
}

func TestTheQueuesOfAProcessThatNeverLedEndWithIt(t *testing.T) {
	var o *opener
	t.Run("process", func(t *testing.T) { o = newFixture(t, defaultArgs(), nil).plugin.opener })
	require.Eventually(t, func() bool { return o.queue.ShuttingDown() && o.fallbacks.queue.ShuttingDown() }, 10*time.Second, 10*time.Millisecond)
}

func TestThePatchOpensTheGateAndSaysWhichPodItIsFor(t *testing.T) {
	f := newFixture(t, defaultArgs(), nil)
	f.mix(t, capacityMix("web", 0, 0))
	pod := gatedPod("web", 0)
	pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "example.com/other"})
	f.known(t, pod)
	change, limitedTo, err := f.plugin.opener.change(pod)
	require.NoError(t, err)
	assert.Equal(t, "on-demand", limitedTo)
	patch, err := gate.Patch(pod, change)
	require.NoError(t, err)
	var sent struct {
		Metadata struct{ UID, ResourceVersion string }
	}
	require.NoError(t, json.Unmarshal(patch, &sent))
	assert.Equal(t, "web-0", sent.Metadata.UID)
	assert.Equal(t, "5", sent.Metadata.ResourceVersion)
	after := f.open(t, pod)
	assert.Equal(t, []corev1.PodSchedulingGate{{Name: "example.com/other"}}, after.Spec.SchedulingGates)
	assert.Equal(t, map[string]string{capacity.KarpenterCapacityType: "on-demand"}, after.Spec.NodeSelector)
	assert.Equal(t, map[string]string{
		v1alpha1.SlotAnnotation: "0", v1alpha1.CapacityTypeAnnotation: "on-demand", v1alpha1.MixAnnotation: "capacitymix/web",
		v1alpha1.PodDeletionCostAnnotation: "-0", v1alpha1.ClaimAnnotation: "web-0/on-demand",
	}, after.Annotations)
}

// The scheduling queue may try a pod again before the ledger has heard that the node is registered.
func TestANodeThatIsRegisteredWakesThePodsThatWereOpened(t *testing.T) {
	f := newFixture(t, defaultArgs(), nil)
	f.mix(t, capacityMix("web", 0, 0))
	pod := gatedPod("web", 0)
	f.known(t, pod)
	f.open(t, pod)
	node := testNode("new", "on-demand")
	before := node.DeepCopy()
	before.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}}
	nodes := f.watcher().nodeHandler()
	nodes.OnAdd(before, false)
	assert.Empty(t, f.activated)
	nodes.OnUpdate(before, node)
	assert.Equal(t, activated{"shop/web-0": 1}, f.activated)
}

func TestPodsThatAreLetGoWithoutASlot(t *testing.T) {
	args := defaultArgs()
	f := newFixture(t, args, nil)
	f.mix(t, capacityMix("web", 0, 0))
	for reason, pod := range map[string]*corev1.Pod{
		v1alpha1.GateOpenedNoMix: gatedPod("other", 0),
		v1alpha1.GateOpenedPinned: func() *corev1.Pod {
			p := gatedPod("web", 0)
			p.Spec.NodeSelector = map[string]string{capacity.KarpenterCapacityType: "spot"}
			return p
		}(),
	} {
		f.known(t, pod)
		after := f.open(t, pod)
		assert.Equal(t, map[string]string{v1alpha1.GateOpenedAnnotation: reason}, after.Annotations)
		assert.Equal(t, pod.Spec.NodeSelector, after.Spec.NodeSelector)
		assert.Empty(t, after.Spec.SchedulingGates)
	}
	f.plugin.opener.limits = false
	pod := gatedPod("web", 1)
	f.known(t, pod)
	assert.Equal(t, v1alpha1.GateOpenedNoLabel, f.open(t, pod).Annotations[v1alpha1.GateOpenedAnnotation])
}

// The promise of the gate path: it is another way to the same slots.
func TestGatesAndFilterGiveTheSameSlots(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		percent, floor := rapid.Int32Range(0, 100).Draw(rt, "percent"), rapid.Int32Range(0, 5).Draw(rt, "floor")
		cm := capacityMix("web", percent, floor)
		filtered, opened := newFixture(t, defaultArgs(), nil), newFixture(t, defaultArgs(), nil)
		filtered.mix(t, cm)
		opened.mix(t, cm)
		here := map[int][2]*corev1.Pod{}
		for i := range rapid.IntRange(1, 40).Draw(rt, "pods") {
			if n := len(here); n > 0 && rapid.IntRange(0, 3).Draw(rt, "leaves") == 0 {
				gone := rapid.IntRange(0, i-1).Draw(rt, "who")
				if pods, ok := here[gone]; ok {
					filtered.watcher().forget(pods[0])
					opened.watcher().forget(pods[1])
					delete(here, gone)
				}
			}
			one, other := testPod("web", i), gatedPod("web", i)
			filtered.known(rt, one)
			opened.known(rt, other)
			p, _ := filtered.plugin.resolver.Resolve(one)
			c, err := filtered.plugin.claim(one, p)
			require.NoError(rt, err)
			one.Annotations, one.Spec.NodeName = annotations(c, one), "node"
			filtered.watcher().pod(one)
			after := opened.open(rt, other)
			limited, ok := gate.Opened(after)
			require.True(rt, ok)
			assert.Equal(rt, c.wants, limited, "pod %d", i)
			if rapid.Bool().Draw(rt, "bound") { // it may be bound soon or never
				after.Spec.NodeName = "node"
				opened.watcher().pod(after)
			}
			delete(after.Annotations, v1alpha1.ClaimAnnotation)
			assert.Equal(rt, one.Annotations, after.Annotations, "pod %d", i)
			after.Annotations[v1alpha1.ClaimAnnotation] = gate.ClaimOf(after, limited)
			here[i] = [2]*corev1.Pod{one, after}
		}
	})
}

func TestAnOpenedPodKeepsItsSlotAndItsTypeThroughSchedulingAndRestart(t *testing.T) {
	f := newFixture(t, defaultArgs(), []*corev1.Node{testNode("s", "spot"), testNode("d", "on-demand")})
	f.mix(t, capacityMix("web", 50, 0, func(cm *v1alpha1.CapacityMix) { cm.Spec.WhenOnDemandUnavailable = v1alpha1.WhenOnDemandUnavailableSpot }))
	first, second := gatedPod("web", 0), gatedPod("web", 1)
	f.known(t, first, second)
	first, second = f.open(t, first), f.open(t, second)
	key, _ := policy.GroupOf(first, nil)
	p, _ := f.plugin.resolver.Resolve(first)
	entries := func(l *ledger.Ledger) string {
		text := ""
		for _, e := range l.Entries(key, p) {
			text += fmt.Sprintf("%s:%d pending=%v; ", e.UID, e.Slot, e.Pending)
		}
		return text
	}
	assert.Equal(t, "web-0:0 pending=true; web-1:1 pending=true; ", entries(f.plugin.ledger))

	// A slot that comes free is the next pod's: those that are opened stay where they are.
	assert.Nil(t, f.plugin.ledger.Forget(first.UID), "nobody is woken")
	state := framework.NewCycleState()
	_, status := f.plugin.PreFilter(f.ctx, state, second, f.infos)
	require.True(t, status.IsSuccess(), status)
	assert.Equal(t, 1, cycleOf(state).slot)
	assert.Equal(t, capacity.Spot, cycleOf(state).wants)
	require.True(t, f.plugin.Reserve(f.ctx, state, second, "s").IsSuccess())
	f.watcher().pod(second) // an update that is not its Binding
	f.plugin.Unreserve(f.ctx, state, second, "s")
	third := gatedPod("web", 2)
	f.known(t, third)
	f.open(t, third)
	assert.Equal(t, "web-2:0 pending=true; web-1:1 pending=true; ", entries(f.plugin.ledger))

	again := newFixture(t, defaultArgs(), nil)
	again.mix(t, capacityMix("web", 50, 0))
	again.watcher().pod(second)
	fourth := gatedPod("web", 3)
	again.known(t, fourth)
	again.open(t, fourth)
	assert.Equal(t, "web-3:0 pending=true; web-1:1 pending=true; ", entries(again.plugin.ledger))
}

func TestTheCopyOfAClaimIsNone(t *testing.T) {
	f := newFixture(t, defaultArgs(), nil)
	f.mix(t, capacityMix("web", 100, 0))
	pod := gatedPod("web", 0)
	f.known(t, pod)
	copied := testPod("web", 1)
	copied.Annotations = f.open(t, pod).Annotations
	f.watcher().pod(copied)
	groups, pods := f.plugin.ledger.Size()
	assert.Equal(t, [2]int{1, 1}, [2]int{groups, pods})
}
