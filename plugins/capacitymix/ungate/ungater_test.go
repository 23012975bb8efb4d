// SPDX-License-Identifier: Apache-2.0

package ungate

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/arguments"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/state"
	"berth.dev/berth/scheduler/upstream"
	"berth.dev/berth/test/plugintest"
)

// fixture is an Ungater with the state of a scheduler.
type fixture struct {
	ctx     context.Context
	cluster *plugintest.Cluster
	ungater *Ungater
	fenced  atomic.Bool
}

func newFixture(tb testing.TB, objects ...runtime.Object) *fixture {
	tb.Helper()
	c := plugintest.NewCluster(tb, nil, objects...)
	f := &fixture{ctx: c.Ctx, cluster: c}
	handle := c.Handle(tb)
	args := plugintest.Args()
	classifier, err := arguments.Classifier(args)
	require.NoError(tb, err)
	s, err := state.New(c.Ctx, handle, args, classifier, func() bool { return f.fenced.Load() }, clock.RealClock{})
	require.NoError(tb, err)
	label, _, err := arguments.CapacityTypeLabel(args, classifier)
	require.NoError(tb, err)
	f.ungater = New(c.Ctx, s, c.Client, &label, upstream.Admission{})
	require.NoError(tb, s.Start(c.Ctx, handle, f.ungater))
	f.ungater.AddProfile("berth-scheduler", s.Resolver(nil))
	c.Start()
	require.NoError(tb, s.Startup.Wait(c.Ctx))
	plugintest.Await(tb, s.Quarantine.Synced) // its list would race with reactors that tests add
	return f
}

// mix adds a CapacityMix, without the effects of its event.
func (f *fixture) mix(tb testing.TB, cm *v1alpha1.CapacityMix) {
	tb.Helper()
	require.NoError(tb, f.ungater.Mixes.Set(cm))
}

// addPod has the watch deliver a pod.
func (f *fixture) addPod(pod *corev1.Pod) { f.ungater.PodHandler().OnAdd(pod, false) }

// ungate ungates a pod, and returns it as the API server then has it.
func (f *fixture) ungate(tb testing.TB, pod *corev1.Pod) *corev1.Pod {
	tb.Helper()
	patch, _, err := f.ungater.Patch(pod)
	require.NoError(tb, err)
	after := plugintest.Patched(tb, pod, patch)
	f.addPod(after)
	return after
}

func TestTheQueuesOfAProcessThatNeverLedEndWithIt(t *testing.T) {
	var u *Ungater
	t.Run("process", func(t *testing.T) { u = newFixture(t).ungater })
	require.Eventually(t, func() bool { return u.queue.ShuttingDown() && u.spotFallback.queue.ShuttingDown() }, 10*time.Second, 10*time.Millisecond)
}

func TestThePatchRemovesTheGateAndNamesThePod(t *testing.T) {
	f := newFixture(t)
	f.mix(t, plugintest.CapacityMix("web", 0, 0))
	pod := plugintest.GatedPod("web", 0)
	f.cluster.SetPods(t, pod)
	patch, limitedTo, err := f.ungater.Patch(pod)
	require.NoError(t, err)
	assert.Equal(t, "on-demand", limitedTo)
	var sent struct {
		Metadata struct{ UID, ResourceVersion string }
	}
	require.NoError(t, json.Unmarshal(patch, &sent))
	assert.Equal(t, "web-0", sent.Metadata.UID)
	assert.Equal(t, "5", sent.Metadata.ResourceVersion)
	after := f.ungate(t, pod)
	assert.Empty(t, after.Spec.SchedulingGates)
	assert.Equal(t, map[string]string{capacity.KarpenterCapacityType: "on-demand"}, after.Spec.NodeSelector)
	assert.Equal(t, map[string]string{
		v1alpha1.SlotAnnotation: "0", v1alpha1.CapacityTypeAnnotation: "on-demand", v1alpha1.MixAnnotation: "capacitymix/web",
		v1alpha1.PodDeletionCostAnnotation: "-0", v1alpha1.ClaimAnnotation: "web-0/on-demand",
	}, after.Annotations)
}

// The scheduling queue may try a pod again before the ledger has the registered node.
func TestANodeThatIsRegisteredWakesThePodsThatWereUngated(t *testing.T) {
	f := newFixture(t)
	f.mix(t, plugintest.CapacityMix("web", 0, 0))
	pod := plugintest.GatedPod("web", 0)
	f.cluster.SetPods(t, pod)
	f.ungate(t, pod)
	node := plugintest.Node("new", "on-demand")
	before := node.DeepCopy()
	before.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}}
	nodes := f.ungater.NodeHandler()
	nodes.OnAdd(before, false)
	assert.Empty(t, f.cluster.Activated.Pods())
	nodes.OnUpdate(before, node)
	assert.Equal(t, map[string]int{"shop/web-0": 1}, f.cluster.Activated.Pods())
}

func TestPodsThatAreUngatedWithoutASlot(t *testing.T) {
	f := newFixture(t)
	f.mix(t, plugintest.CapacityMix("web", 0, 0))
	for reason, pod := range map[string]*corev1.Pod{
		v1alpha1.UngateReasonNoMix: plugintest.GatedPod("other", 0),
		v1alpha1.UngateReasonPinned: func() *corev1.Pod {
			p := plugintest.GatedPod("web", 0)
			p.Spec.NodeSelector = map[string]string{capacity.KarpenterCapacityType: "spot"}
			return p
		}(),
	} {
		f.cluster.SetPods(t, pod)
		after := f.ungate(t, pod)
		assert.Equal(t, map[string]string{v1alpha1.UngateReasonAnnotation: reason}, after.Annotations)
		assert.Equal(t, pod.Spec.NodeSelector, after.Spec.NodeSelector)
		assert.Empty(t, after.Spec.SchedulingGates)
	}
	f.ungater.label = nil
	pod := plugintest.GatedPod("web", 1)
	f.cluster.SetPods(t, pod)
	assert.Equal(t, v1alpha1.UngateReasonNoLabel, f.ungate(t, pod).Annotations[v1alpha1.UngateReasonAnnotation])
}

// The pods that a queue admits first have the first slots.
func TestAPodThatAnotherGateHoldsHasNoSlot(t *testing.T) {
	f := newFixture(t)
	f.mix(t, plugintest.CapacityMix("web", 50, 2))
	limited := func(i int, other bool) string {
		pod := plugintest.GatedPod("web", i)
		if other {
			pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "example.com/queue"})
		}
		f.cluster.SetPods(t, pod)
		f.addPod(pod)
		next := f.ungater.prepare(f.ctx, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		if next == nil {
			return ""
		}
		f.addPod(plugintest.Patched(t, pod, next.patch))
		return next.capacityType
	}
	for i := range 10 {
		require.Empty(t, limited(i, true))
	}
	_, pods := f.ungater.Ledger.Size()
	require.Zero(t, pods)
	assert.Equal(t, []string{"on-demand", "on-demand", "spot"}, []string{limited(7, false), limited(8, false), limited(9, false)})
}

func TestTheCopyOfAClaimIsNone(t *testing.T) {
	f := newFixture(t)
	f.mix(t, plugintest.CapacityMix("web", 100, 0))
	pod := plugintest.GatedPod("web", 0)
	f.cluster.SetPods(t, pod)
	copied := plugintest.Pod("web", 1)
	copied.Annotations = f.ungate(t, pod).Annotations
	f.addPod(copied)
	groups, pods := f.ungater.Ledger.Size()
	assert.Equal(t, [2]int{1, 1}, [2]int{groups, pods})
}

// A process that may not lead any more ungates no pod and deletes none. Bind is tested with the plugin.
func TestBehindAShutFenceNothingIsWritten(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	f := newFixture(t, pod)
	written := func() (verbs []string) {
		for _, a := range f.cluster.Client.Actions() {
			if a.GetVerb() != "list" && a.GetVerb() != "watch" && a.GetVerb() != "get" {
				verbs = append(verbs, a.GetVerb()+" "+a.GetResource().Resource+" "+a.GetSubresource())
			}
		}
		return verbs
	}
	writes := []func(context.Context){
		func(ctx context.Context) { f.ungater.send(ctx, key, &ungating{pod: pod, patch: []byte("{}")}) },
		func(ctx context.Context) { f.ungater.spotFallback.delete(ctx, key, pod, &governing.Mix{}) },
	}
	for _, write := range writes {
		ctx, end := context.WithCancel(f.ctx)
		f.fenced.Store(true)
		time.AfterFunc(time.Millisecond, end) // as the process ends a moment later
		write(ctx)
		assert.ErrorIs(t, ctx.Err(), context.Canceled, "it waits for the end")
		end()
		assert.Empty(t, written())
	}

	f.fenced.Store(false)
	for _, write := range writes {
		write(f.ctx)
	}
	assert.Equal(t, []string{"patch pods ", "delete pods "}, written())
}
