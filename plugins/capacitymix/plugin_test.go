// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	testingclock "k8s.io/utils/clock/testing"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/capacitymix/stages"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/plugintest"
)

// victimsTerminateWithin is that of package stages.
const victimsTerminateWithin = 5 * time.Second

// Preemption is limited by a change of what the scheduler passes.
var _ nodeStatuses = &framework.NodeToStatus{}

var twoNodes = []*corev1.Node{plugintest.Node("s", "spot"), plugintest.Node("o", "on-demand"), plugintest.Node("u", "")}

// filter runs PreFilter and Filter of a pod on every node.
func (f *fixture) filter(t *testing.T, pod *corev1.Pod) (fwk.CycleState, map[string]*fwk.Status) {
	t.Helper()
	state := framework.NewCycleState()
	_, status := f.plugin.PreFilter(f.ctx, state, pod, f.infos)
	require.True(t, status.IsSuccess() || status.IsSkip(), "%v", status)
	got := map[string]*fwk.Status{}
	for _, info := range f.infos {
		got[info.Node().Name] = f.plugin.Filter(f.ctx, state, pod, info)
	}
	return state, got
}

// scores runs PreScore and Score of a pod on every node.
func (f *fixture) scores(t *testing.T, state fwk.CycleState, pod *corev1.Pod) (scores []int64) {
	t.Helper()
	require.Nil(t, f.plugin.PreScore(f.ctx, state, pod, f.infos))
	for _, info := range f.infos {
		s, status := f.plugin.Score(f.ctx, state, pod, info)
		require.Nil(t, status)
		scores = append(scores, s)
	}
	return scores
}

func TestFilterKeepsAPodToTheTypeOfItsSlot(t *testing.T) {
	pods := []*corev1.Pod{plugintest.Pod("web", 0), plugintest.Pod("web", 1)}
	f := webFixture(t, 50, pods...) // slot 0 on-demand, slot 1 spot

	_, got := f.filter(t, pods[0])
	assert.Nil(t, got["o"])
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, got["s"].Code())
	assert.Equal(t, "node(s) are spot, slot 0 needs on-demand", got["s"].Message())
	assert.Equal(t, ErrReasonUnknownType, got["u"].Message())

	_, got = f.filter(t, pods[1])
	assert.Nil(t, got["s"])
	assert.Equal(t, "node(s) are on-demand, slot 1 needs spot", got["o"].Message())
	assert.NotSame(t, got["o"], f.plugin.Filter(f.ctx, framework.NewCycleState(), pods[1], f.infos[1]), "a status is never shared")
}

func TestFilterRefusesDepartingNodes(t *testing.T) {
	leaving := plugintest.Node("o2", "on-demand")
	leaving.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}
	pod := plugintest.Pod("web", 0)
	f := newFixture(t, plugintest.Args(), append(twoNodes[:2:2], leaving), pod)
	f.mix(t, plugintest.CapacityMix("web", 50, 0))
	_, got := f.filter(t, pod)
	assert.Nil(t, got["o"])
	assert.Equal(t, ErrReasonDeparting, got["o2"].Message())
}

func TestPodsWithoutAMixAreSkipped(t *testing.T) {
	pinned := plugintest.Pod("web", 0)
	pinned.Spec.NodeSelector = map[string]string{"karpenter.sh/capacity-type": "spot"}
	daemon := plugintest.Pod("web", 1)
	daemon.OwnerReferences[0] = metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: new(true)}
	for name, pod := range map[string]*corev1.Pod{
		"no mix selects it":               plugintest.Pod("other", 0),
		"it names a capacity type itself": pinned,
		"it belongs to a DaemonSet":       daemon,
		"it is a mirror pod":              mirror(plugintest.Pod("web", 2)),
		"it stands in another namespace":  inNamespace(plugintest.Pod("web", 3), "elsewhere"),
	} {
		t.Run(name, func(t *testing.T) {
			f := webFixture(t, 50, pod)
			state := framework.NewCycleState()
			_, status := f.plugin.PreFilter(f.ctx, state, pod, f.infos)
			assert.True(t, status.IsSkip())
			result, status := f.plugin.PostFilter(f.ctx, state, pod, nil)
			assert.Nil(t, result)
			assert.Equal(t, fwk.Unschedulable, status.Code(), "preemption has its turn")
			assert.Empty(t, status.Message())
			assert.True(t, f.plugin.PreScore(f.ctx, state, pod, f.infos).IsSkip())
			assert.Nil(t, f.plugin.Reserve(f.ctx, state, pod, "s"))
			f.plugin.Unreserve(f.ctx, state, pod, "s")
			assert.True(t, f.plugin.Bind(f.ctx, state, pod, "s").IsSkip(), "left to DefaultBinder")
			_, pods := f.plugin.Ledger.Size()
			assert.Zero(t, pods)
		})
	}
}

func mirror(p *corev1.Pod) *corev1.Pod {
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	return p
}

func inNamespace(p *corev1.Pod, namespace string) *corev1.Pod {
	p.Namespace = namespace
	return p
}

func TestReserveRefusesWhenTheMixChangedMeanwhile(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f := webFixture(t, 50, pod)
	state, _ := f.filter(t, pod)
	f.mix(t, plugintest.CapacityMix("web", 100, 0)) // slot 0 is spot now
	status := f.plugin.Reserve(f.ctx, state, pod, "o")
	assert.Equal(t, ErrReasonMixChanged, status.Message())
	assert.Equal(t, 1, f.cluster.Activated.Pods()["shop/web-0"], "nothing else would wake it")
	state, got := f.filter(t, pod)
	assert.Nil(t, got["s"])
	assert.Nil(t, f.plugin.Reserve(f.ctx, state, pod, "s"))
}

func TestBindWritesTheSlotInTheBinding(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	own := plugintest.Pod("web", 1)
	own.Annotations = map[string]string{v1alpha1.PodDeletionCostAnnotation: "7"}
	f := webFixture(t, 50, pod, own)
	bindings := map[string]map[string]string{}
	for i, p := range []*corev1.Pod{pod, own} {
		state, _ := f.filter(t, p)
		require.Nil(t, f.plugin.Reserve(f.ctx, state, p, []string{"o", "s"}[i]))
		require.Nil(t, f.plugin.Bind(f.ctx, state, p, []string{"o", "s"}[i]))
	}
	for _, action := range f.cluster.Client.Actions() {
		if action.GetSubresource() == "binding" {
			b := bindingOf(t, action)
			bindings[b.Name] = b.Annotations
		}
	}
	assert.Equal(t, map[string]string{
		v1alpha1.SlotAnnotation: "0", v1alpha1.CapacityTypeAnnotation: "on-demand",
		v1alpha1.MixAnnotation: "capacitymix/web", v1alpha1.PodDeletionCostAnnotation: "-0",
	}, bindings["web-0"])
	assert.Equal(t, "1", bindings["web-1"][v1alpha1.SlotAnnotation])
	assert.NotContains(t, bindings["web-1"], v1alpha1.PodDeletionCostAnnotation, "the user's own cost stays")
	assert.Empty(t, f.cluster.Recorder.Events, "no event on success")
}

func TestABindingHasTheLabelOfTheFloor(t *testing.T) {
	label := map[string]string{}
	for name, tc := range map[string]struct {
		node string
		mix  func(*v1alpha1.CapacityMix)
		pod  map[string]string
		want bool
	}{
		"on on-demand":               {"o", builders.ProtectFloor, nil, true},
		"on spot":                    {"s", builders.ProtectFloor, nil, false},
		"without the setting":        {"o", func(*v1alpha1.CapacityMix) {}, nil, false},
		"with a label of a template": {"o", builders.ProtectFloor, map[string]string{v1alpha1.FloorLabel: "x"}, false},
		"without a floor": {"o", func(cm *v1alpha1.CapacityMix) {
			builders.ProtectFloor(cm)
			cm.Spec.MinOnDemand = 0
		}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := plugintest.Pod("web", 0)
			maps.Copy(pod.Labels, tc.pod)
			f := newFixture(t, plugintest.Args(), twoNodes, plugintest.Objects(pod)...)
			f.mix(t, plugintest.CapacityMix("web", 50, 1, tc.mix))
			member, ok := f.plugin.Member(pod, f.plugin.Mixes.Match("shop", pod.Labels))
			require.True(t, ok)
			label[v1alpha1.FloorLabel] = governing.FloorLabel(member.Group)
			state, _ := f.filter(t, pod)
			require.Nil(t, f.plugin.Reserve(f.ctx, state, pod, tc.node))
			require.Nil(t, f.plugin.Bind(f.ctx, state, pod, tc.node))
			var have map[string]string
			for _, action := range f.cluster.Client.Actions() {
				if action.GetSubresource() == "binding" {
					have = bindingOf(t, action).Labels
				}
			}
			if !tc.want {
				assert.Empty(t, have)
				return
			}
			assert.Equal(t, label, have)
		})
	}
}

func TestABorrowedPodGetsAnEvent(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f := webFixture(t, 100, pod)
	state, _ := f.filter(t, pod)
	require.Nil(t, f.plugin.Reserve(f.ctx, state, pod, "o"))
	require.Nil(t, f.plugin.Bind(f.ctx, state, pod, "o"))
	require.Len(t, f.cluster.Recorder.Events, 1)
	assert.Equal(t, "Normal Borrowed Scheduled on on-demand node o: no spot capacity for slot 0", <-f.cluster.Recorder.Events)
}

func TestPostFilterLetsAPodBorrowInItsNextCycle(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f := webFixture(t, 100, pod)
	state, got := f.filter(t, pod)
	assert.NotNil(t, got["o"])
	_, status := f.plugin.PostFilter(f.ctx, state, pod, nil)
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code(), "no preemption while there may be room elsewhere")
	assert.Equal(t, 1, f.cluster.Activated.Pods()["shop/web-0"])
	state, got = f.filter(t, pod)
	assert.Nil(t, got["o"])
	assert.Nil(t, got["s"], "room that came meanwhile is taken")
	assert.NotNil(t, got["u"], "unknown satisfies nothing")
	scores := f.scores(t, state, pod)
	assert.Greater(t, scores[0], scores[1], "its own type is preferred")
	full := framework.NewDefaultNodeToStatus()
	for _, node := range []string{"s", "o"} {
		full.Set(node, fwk.NewStatus(fwk.Unschedulable, "Insufficient cpu").WithPlugin("NodeResourcesFit"))
	}
	_, status = f.plugin.PostFilter(f.ctx, state, pod, full)
	assert.Equal(t, fwk.Unschedulable, status.Code(), "now preemption has its turn")
	assert.Empty(t, status.Reasons(), "it has nothing to add")
	assert.Equal(t, fwk.Unschedulable, full.Get("s").Code(), "on the slot's type")
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, full.Get("o").Code(), "and on no other")
	assert.Equal(t, []string{"Insufficient cpu"}, full.Get("o").Reasons())
	_, got = f.filter(t, pod)
	assert.NotNil(t, got["o"], "the next search begins with its own type")
}

func TestANominatedPodIsOnlyTriedOnItsType(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f := webFixture(t, 100, pod)
	for range 2 { // on its type, then on both
		state, _ := f.filter(t, pod)
		f.plugin.PostFilter(f.ctx, state, pod, framework.NewDefaultNodeToStatus())
	}
	pod.Status.NominatedNodeName = "s" // by DefaultPreemption, which came next
	state, got := f.filter(t, pod)
	assert.Nil(t, got["s"])
	assert.NotNil(t, got["o"])
	_, status := f.plugin.PostFilter(f.ctx, state, pod, nil)
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code(), "preemption has no second turn at once")
	_, got = f.filter(t, pod)
	assert.NotNil(t, got["o"], "its victims are about to terminate")
}

// Preemption deletes in the background, and a sibling that leaves wakes the pod
// at once.
func TestANominatedPodKeepsItsSlotUntilItsVictimsTerminate(t *testing.T) {
	pod, sibling := plugintest.Pod("web", 1), plugintest.Pod("web", 0)
	f := webFixture(t, 100, pod, sibling)
	clock := testingclock.NewFakeClock(plugintest.Noon)
	f.plugin.clock = clock
	p, _ := f.plugin.resolver.Resolve(pod)
	slot := func(pod *corev1.Pod) (*preFilterState, int) {
		c, err := f.plugin.claim(pod, p, f.plugin.Version(pod.Namespace), capacity.Unknown)
		require.NoError(t, err)
		return c, c.slot
	}
	fail := func(c *preFilterState) { f.fail(pod, c) }
	_, lower := slot(sibling)
	for range 2 { // on its type, then on both
		c, _ := slot(pod)
		fail(c)
	}
	pod.Status.NominatedNodeName = "s" // by DefaultPreemption, which came next
	c, own := slot(pod)
	require.Less(t, lower, own)
	fail(c)
	f.plugin.Ledger.Forget(sibling.UID)
	for range 3 {
		c, got := slot(pod)
		assert.Equal(t, own, got, "a lower slot is free")
		fail(c)
	}
	clock.Step(victimsTerminateWithin)
	c, _ = slot(pod)
	fail(c)
	_, got := slot(pod)
	assert.Equal(t, lower, got, "the nomination came to nothing")
}

// fail ends the attempt of a claim: no node fits.
func (f *fixture) fail(pod *corev1.Pod, c *preFilterState) {
	state := framework.NewCycleState()
	state.Write(preFilterStateKey, c)
	f.plugin.PostFilter(f.ctx, state, pod, framework.NewDefaultNodeToStatus())
}

// Cluster-autoscaler and Karpenter nominate a pod to the node that they launch for it (KEP-5278). They do not consider slots: the node may be
// of the other type, and pods that were not preempted may terminate there.
func TestNominationsByOthersChangeNoStage(t *testing.T) {
	type attempt struct {
		slot     int
		slotType capacity.Type
		stage    ledger.Stage
	}
	sequence := func(t *testing.T, nominated string) (all []attempt) {
		t.Helper()
		pod, leaving := plugintest.Pod("web", 0), plugintest.Pod("leaving", 0)
		pod.Spec.Priority = new(int32(10))
		leaving.DeletionTimestamp = new(metav1.NewTime(plugintest.Noon))
		f := webFixture(t, 100, pod)
		for _, info := range f.infos {
			if info.Node().Name == "o" {
				info.(*framework.NodeInfo).AddPod(leaving)
			}
		}
		clock := testingclock.NewFakeClock(plugintest.Noon)
		f.plugin.clock = clock
		for range 9 { // someone writes the status before every attempt
			clock.Step(victimsTerminateWithin)
			pod.Status.NominatedNodeName = nominated
			state, got := f.filter(t, pod)
			s := readState(state)
			all = append(all, attempt{s.slot, s.slotType, s.attempt.Stage})
			assert.Equal(t, s.attempt.Stage == ledger.StageBorrow, got["o"] == nil, "the other type is for pods that borrow")
			f.plugin.PostFilter(f.ctx, state, pod, framework.NewDefaultNodeToStatus())
		}
		return all
	}
	want := sequence(t, "")
	require.Contains(t, want, attempt{0, capacity.Spot, ledger.StageBorrow})
	for name, nominated := range map[string]string{"one of the other type": "o", "one that is not there": "new"} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, want, sequence(t, nominated)) })
	}
	// Preemption may have chosen this one. Once it had its turn, the pod waits for the victims, one attempt long.
	t.Run("a node of its type", func(t *testing.T) {
		borrows := 0
		for _, a := range sequence(t, "s") {
			assert.Equal(t, attempt{0, capacity.Spot, a.stage}, a)
			if a.stage == ledger.StageBorrow {
				borrows++
			}
		}
		assert.Equal(t, 3, borrows, "on its type, on both, preemption has its turn")
	})
}

func TestAPodKeepsToItsNominatedNodeWhileItsVictimsTerminate(t *testing.T) {
	pod, victim, own := plugintest.Pod("web", 0), plugintest.Pod("victim", 0), plugintest.Pod("own", 0)
	pod.Spec.Priority = new(int32(10))
	pod.Status.NominatedNodeName = "s"
	own.Spec.Priority = new(int32(10))
	own.DeletionTimestamp = new(metav1.NewTime(plugintest.Noon))
	f := webFixture(t, 100, pod)
	info := f.infos[0].(*framework.NodeInfo)
	info.AddPod(victim)
	info.AddPod(own)
	p, _ := f.plugin.resolver.Resolve(pod)
	c, err := f.plugin.claim(pod, p, f.plugin.Version(pod.Namespace), capacity.Unknown)
	require.NoError(t, err)
	assert.False(t, c.nominated, "no pod of a lower priority terminates")
	victim.DeletionTimestamp = new(metav1.NewTime(plugintest.Noon))
	for range 3 {
		c, err = f.plugin.claim(pod, p, f.plugin.Version(pod.Namespace), capacity.Unknown)
		require.NoError(t, err)
		assert.True(t, c.nominated, "also in a scheduler that has just started")
		f.fail(pod, c)
	}
}

func TestScoreSpreadsSpotPodsOverInterruptionDomains(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 4 {
		pods = append(pods, plugintest.Pod("web", i))
	}
	f := newFixture(t, plugintest.Args(), []*corev1.Node{plugintest.Node("s1", "spot"), plugintest.Node("s2", "spot"), plugintest.Node("s3", "spot")}, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 100, 0))
	for i, node := range []string{"s1", "s1", "s2"} {
		state, _ := f.filter(t, pods[i])
		require.Nil(t, f.plugin.Reserve(f.ctx, state, pods[i], node))
	}
	state, _ := f.filter(t, pods[3])
	assert.Equal(t, []int64{0, 40, 100}, f.scores(t, state, pods[3]), "25 for the domain, 10 for the zone and 25 for the node, each time")
}

func TestOnDemandPodsAreSpreadOverZonesAndNodes(t *testing.T) {
	pods := []*corev1.Pod{plugintest.Pod("web", 0), plugintest.Pod("web", 1)}
	nodes := []*corev1.Node{plugintest.Node("a1", "on-demand"), plugintest.Node("a2", "on-demand"), plugintest.Node("b1", "on-demand")}
	for i, zone := range []string{"a", "a", "b"} {
		nodes[i].Labels[corev1.LabelTopologyZone] = zone
		nodes[i].Labels[corev1.LabelInstanceTypeStable] = plugintest.NodeName("type", i) // each is a domain: they do not count
	}
	f := newFixture(t, plugintest.Args(), nodes, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 0, 0))
	state, _ := f.filter(t, pods[0])
	require.Nil(t, f.plugin.Reserve(f.ctx, state, pods[0], "a1"))
	state, _ = f.filter(t, pods[1])
	assert.Equal(t, []int64{65, 90, 100}, f.scores(t, state, pods[1]))
}

func TestSampleNarrowsLargeSidesOnly(t *testing.T) {
	var nodes []*corev1.Node
	for i := range 40 {
		nodes = append(nodes, plugintest.Node(plugintest.NodeName("s", i), "spot"))
	}
	for i := range 16 {
		nodes = append(nodes, plugintest.Node(plugintest.NodeName("o", i), "on-demand"))
	}
	args := plugintest.Args()
	args.NodeSampleSize = 16
	onDemand, spot, picky := plugintest.Pod("web", 0), plugintest.Pod("web", 1), plugintest.Pod("web", 2)
	picky.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	f := newFixture(t, args, nodes, onDemand, spot, picky)
	f.mix(t, plugintest.CapacityMix("web", 99, 1))
	preFilter := func(p *corev1.Pod) (*fwk.PreFilterResult, fwk.CycleState) {
		state := framework.NewCycleState()
		result, status := f.plugin.PreFilter(f.ctx, state, p, f.infos)
		require.True(t, status.IsSuccess())
		return result, state
	}
	result, _ := preFilter(onDemand)
	assert.True(t, result.AllNodes(), "16 nodes are no more than a sample")
	result, state := preFilter(spot)
	require.Len(t, result.NodeNames, 4, "the best of 16")
	for name := range result.NodeNames {
		assert.Equal(t, capacity.Spot, typeOf(f, name))
	}
	_, status := f.plugin.PostFilter(f.ctx, state, spot, nil)
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, status.Code())
	result, _ = preFilter(spot)
	assert.True(t, result.AllNodes(), "after the sample, all nodes of the type")
	result, _ = preFilter(picky)
	assert.True(t, result.AllNodes(), "a pod that requests particular nodes is not narrowed")
}

func TestProfilesThatShareALedgerMustAgree(t *testing.T) {
	f := newFixture(t, plugintest.Args(), twoNodes)
	other := plugintest.Args()
	other.NodeSampleSize = 0
	other.DefaultMix = &config.MixSpec{SpotPercent: 10}
	require.NoError(t, f.plugin.Agree(other), "what concerns one profile only may differ")
	other.SpreadSpotOver = []string{"rack"}
	require.EqualError(t, argsError(f.plugin.Agree(other)), "pluginConfig.CapacityMix.args.spreadSpotOver: must be the same in all profiles of a scheduler")
}

func TestNewRefusesOtherArguments(t *testing.T) {
	_, err := NewFactory()(context.Background(), &v1alpha1.CapacityMix{}, nil)
	require.EqualError(t, err, "want args to be of type CapacityMixArgs, got *v1alpha1.CapacityMix")
}

func TestQueueingHints(t *testing.T) {
	pod, sibling, stranger := plugintest.Pod("web", 0), plugintest.Pod("web", 1), plugintest.Pod("other", 0)
	f := newFixture(t, plugintest.Args(), nil)
	departing := plugintest.Node("s", "spot")
	departing.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}
	moved := plugintest.Pod("web", 0)
	moved.Labels = map[string]string{"app": "other"}
	type hint = func(klog.Logger, *corev1.Pod, any, any) (fwk.QueueingHint, error)
	for name, tc := range map[string]struct {
		hint     hint
		old, new any
		want     fwk.QueueingHint
	}{
		"a node of a known type appears": {f.plugin.nodeChanged, nil, plugintest.Node("s", "spot"), fwk.Queue},
		"a node of unknown type appears": {f.plugin.nodeChanged, nil, plugintest.Node("s", ""), fwk.QueueSkip},
		"a departing node appears":       {f.plugin.nodeChanged, nil, departing, fwk.QueueSkip},
		"a node changes its type":        {f.plugin.nodeChanged, plugintest.Node("s", "spot"), plugintest.Node("s", "on-demand"), fwk.Queue},
		"a node gets its type":           {f.plugin.nodeChanged, plugintest.Node("s", ""), plugintest.Node("s", "spot"), fwk.Queue},
		"a node stays what it was":       {f.plugin.nodeChanged, plugintest.Node("s", "spot"), plugintest.Node("s", "spot"), fwk.QueueSkip},
		"a node is to stay after all":    {f.plugin.nodeChanged, departing, plugintest.Node("s", "spot"), fwk.Queue},
		"a sibling is gone":              {f.plugin.podDeleted, sibling, nil, fwk.Queue},
		"another workload's pod is gone": {f.plugin.podDeleted, stranger, nil, fwk.QueueSkip},
		"the pod itself is relabelled":   {f.plugin.podRelabelled, pod, moved, fwk.Queue},
		"another pod is relabelled":      {f.plugin.podRelabelled, stranger, stranger, fwk.QueueSkip},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.hint(klog.Background(), pod, tc.old, tc.new)
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

// unschedulable is a pod with a condition that a scheduler wrote.
func unschedulable(pod *corev1.Pod, since time.Time, message string) *corev1.Pod {
	pod = plugintest.Unschedulable(pod, since)
	pod.Status.Conditions[0].Message = message
	return pod
}

func TestTheWaitBeginsWhenNoNodeOfTheTypeHadCapacity(t *testing.T) {
	now := time.Unix(1000, 0).UTC()
	for name, tc := range map[string]struct {
		attempt ledger.Attempt
		message string
		want    time.Time
	}{
		"the ledger knows":                         {ledger.Attempt{Stage: ledger.StageType, NoCapacitySince: now.Add(-time.Second)}, "", now.Add(-time.Second)},
		"after a restart the pod's condition does": {ledger.Attempt{Stage: ledger.StageType}, "0/3 nodes are available: 3 Insufficient cpu. " + stages.NoCapacity(capacity.Spot, now.Add(-30*time.Second)) + ", and more", now.Add(-30 * time.Second)},
		"but not for another type":                 {ledger.Attempt{Stage: ledger.StageType, TypeChanged: true}, stages.NoCapacity(capacity.Spot, now.Add(-30*time.Second)), now},
		"nor what it says of another type":         {ledger.Attempt{Stage: ledger.StageType}, stages.NoCapacity(capacity.OnDemand, now.Add(-30*time.Second)), now},
		"unschedulable for another reason":         {ledger.Attempt{Stage: ledger.StageType}, `persistentvolumeclaim "data" not found`, now},
		"a time to come":                           {ledger.Attempt{Stage: ledger.StageType}, stages.NoCapacity(capacity.Spot, now.Add(time.Hour)), now},
		"a time before the pod was unschedulable":  {ledger.Attempt{Stage: ledger.StageType}, stages.NoCapacity(capacity.Spot, now.Add(-time.Hour)), now},
		"no time": {ledger.Attempt{Stage: ledger.StageType}, "spot" + stages.HadNoCapacity + "long", now},
	} {
		pod := unschedulable(plugintest.Pod("web", 0), now.Add(-time.Minute), tc.message)
		assert.Equal(t, tc.want, noCapacitySince(&preFilterState{attempt: tc.attempt, slotType: capacity.Spot}, pod, now), name)
	}
	assert.Equal(t, now, noCapacitySince(&preFilterState{attempt: ledger.Attempt{Stage: ledger.StageType}}, plugintest.Pod("web", 1), now), "a pod that was never unschedulable")
}

// The symptom: a pod whose claim did not exist for twenty minutes borrowed in its first attempt.
func TestAPodUnschedulableForAnotherReasonWaitsForSpot(t *testing.T) {
	pod := unschedulable(plugintest.Pod("web", 0), time.Now().Add(-20*time.Minute), `persistentvolumeclaim "data" not found`)
	f := newFixture(t, plugintest.Args(), twoNodes, pod)
	f.mix(t, plugintest.CapacityMix("web", 100, 0, func(cm *v1alpha1.CapacityMix) { cm.Spec.SpotWaitSeconds = new(int32(600)) }))
	state, _ := f.filter(t, pod)
	_, status := f.plugin.PostFilter(f.ctx, state, pod, nil)
	assert.Contains(t, status.Message(), "on-demand is allowed from")
}

// A message that changes is a write of the pod's status, and an event, for every attempt.
func TestTheMessageOfAWaitingPodDoesNotChange(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	waits := func(cm *v1alpha1.CapacityMix) { cm.Spec.SpotWaitSeconds = new(int32(86400)) }
	now := time.Now()
	attempt := func(f *fixture, at time.Time) string {
		f.plugin.clock = testingclock.NewFakeClock(at)
		state, _ := f.filter(t, pod)
		_, status := f.plugin.PostFilter(f.ctx, state, pod, nil)
		return status.Message()
	}
	f := newFixture(t, plugintest.Args(), twoNodes, pod)
	f.mix(t, plugintest.CapacityMix("web", 100, 0, waits))
	first := attempt(f, now)
	for i := range 1000 {
		require.Equal(t, first, attempt(f, now.Add(time.Duration(i)*7*time.Second)))
	}
	assert.Equal(t, 1, f.plugin.Timers.Len())
	f.deletePod(pod)
	assert.Zero(t, f.plugin.Timers.Len())

	pod = unschedulable(pod, now.Add(-time.Hour), first)
	again := newFixture(t, plugintest.Args(), twoNodes, pod)
	again.mix(t, plugintest.CapacityMix("web", 100, 0, waits))
	assert.Equal(t, first, attempt(again, now.Add(time.Hour)), "nor when the scheduler is restarted")
}
