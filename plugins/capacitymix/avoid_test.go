// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/plugins/capacitymix/ledger"
	"berth.dev/berth/plugins/internal/cyclestate"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/plugintest"
)

// avoiding has spot nodes s-0, s-1, … and an on-demand node o, each in a domain of its own, and a mix that avoids domains in quarantine.
func avoiding(t *testing.T, spot int, change func(*v1alpha1.CapacityMix), pods ...*corev1.Pod) (*fixture, []*corev1.Node) {
	t.Helper()
	var nodes []*corev1.Node
	for i := range spot {
		nodes = append(nodes, plugintest.Node(plugintest.NodeName("s", i), "spot"))
	}
	f := newFixture(t, plugintest.Args(), append(nodes, plugintest.Node("o", "on-demand")), plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 100, 0, builders.AvoidInterrupted, change))
	return f, nodes
}

func asItIs(*v1alpha1.CapacityMix) {}

func TestFilterRefusesSpotNodesInQuarantine(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f, nodes := avoiding(t, 2, asItIs, pod)
	_, got := f.filter(t, pod)
	assert.Nil(t, got["s-0"], "nothing is in quarantine")
	f.quarantine(nodes[0])
	_, got = f.filter(t, pod)
	require.NotNil(t, got["s-0"])
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, got["s-0"].Code(), "preemption does not help")
	assert.Equal(t, "node(s) are in interruption domain s-0/?, which is in quarantine until 2100-01-02T03:04:05Z", got["s-0"].Message())
	assert.Nil(t, got["s-1"])

	f.mix(t, plugintest.CapacityMix("web", 100, 0))
	_, got = f.filter(t, pod)
	assert.Nil(t, got["s-0"], "it is a preference by default")
}

// A pod is not kept off the last domain of the nodes that it could use.
func TestNoPodIsLeftWithoutADomain(t *testing.T) {
	for name, tc := range map[string]struct {
		pod    func(*corev1.Pod)
		node   func(*corev1.Node)
		change func(*v1alpha1.CapacityMix)
		used   bool
	}{
		"another domain": {used: false},
		"that is in quarantine": {node: func(n *corev1.Node) {
			n.Labels[corev1.LabelTopologyZone] = "s-0"
		}, used: true},
		"that is not selected": {pod: func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "s-0"}
		}, used: true},
		"without room for it": {pod: func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
		}, used: true},
		"with a taint": {node: func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
		}, used: true},
		"that is cordoned":  {node: func(n *corev1.Node) { n.Spec.Unschedulable = true }, used: true},
		"that is on-demand": {node: func(n *corev1.Node) { n.Labels["karpenter.sh/capacity-type"] = "on-demand" }, used: true},
		"that is no domain of maxPerDomain": {node: func(n *corev1.Node) {
			delete(n.Labels, corev1.LabelTopologyZone)
		}, change: builders.MaxPerZone(9), used: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := plugintest.Pod("web", 0)
			nodes := []*corev1.Node{plugintest.Node("s-0", "spot"), plugintest.Node("s-1", "spot")}
			for _, n := range nodes { // without it, no domain would be left of a node without a zone
				n.Labels[corev1.LabelInstanceTypeStable] = "m5"
			}
			if tc.pod != nil {
				tc.pod(pod)
			}
			if tc.node != nil {
				tc.node(nodes[1])
			}
			if tc.change == nil {
				tc.change = asItIs
			}
			f := newFixture(t, plugintest.Args(), nodes, pod)
			f.mix(t, plugintest.CapacityMix("web", 100, 0, builders.AvoidInterrupted, tc.change))
			f.quarantine(nodes[0])
			_, got := f.filter(t, pod)
			assert.Equal(t, tc.used, got["s-0"] == nil, "%v", got["s-0"])
		})
	}
}

func TestAPodOfAnOnDemandSlotBorrowsNodesInQuarantine(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f, nodes := avoiding(t, 2, func(cm *v1alpha1.CapacityMix) {
		cm.Spec.SpotPercent, cm.Spec.WhenOnDemandUnavailable = 0, v1alpha1.WhenOnDemandUnavailableSpot
	}, pod)
	f.quarantine(nodes[0])
	_, got := f.filter(t, pod)
	require.NotNil(t, got["s-0"], "it does not borrow yet")
	f.plugin.Ledger.SetAttempt(pod.UID, 0, ledger.Attempt{Stage: ledger.StageBorrow})
	_, got = f.filter(t, pod)
	assert.Nil(t, got["s-0"])
	assert.Nil(t, got["o"])
}

func TestAPodOfASpotSlotBorrowsNoNodeInQuarantine(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f, nodes := avoiding(t, 2, asItIs, pod)
	f.quarantine(nodes[0])
	f.filter(t, pod)
	f.plugin.Ledger.SetAttempt(pod.UID, 0, ledger.Attempt{Stage: ledger.StageBorrow})
	_, got := f.filter(t, pod)
	assert.NotNil(t, got["s-0"])
	assert.Nil(t, got["s-1"])
	assert.Nil(t, got["o"])
}

// Whoever borrowed spot first, the others of its unit have no other nodes.
func TestAUnitThatBorrowedSpotUsesNodesInQuarantine(t *testing.T) {
	pods := []*corev1.Pod{inUnit(plugintest.Pod("web", 0), "a"), inUnit(plugintest.Pod("web", 1), "a")}
	f, nodes := avoiding(t, 2, func(cm *v1alpha1.CapacityMix) {
		byUnitLabel(cm)
		cm.Spec.SpotPercent, cm.Spec.WhenOnDemandUnavailable = 0, v1alpha1.WhenOnDemandUnavailableSpot
	}, pods...)
	f.bound(t, pods[0], "s-1", 0)
	f.quarantine(nodes[0])
	state, got := f.filter(t, pods[1])
	require.Equal(t, capacity.Spot, readState(state).slotType)
	assert.Nil(t, got["s-0"])
	assert.Nil(t, f.plugin.Reserve(f.ctx, state, pods[1], "s-0"))
}

// Other pods were preempted for it there, and would be elsewhere, too.
func TestAPodIsNotRefusedTheNodeThatPreemptionFreesForIt(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f, nodes := avoiding(t, 3, asItIs, pod)
	f.filter(t, pod)
	f.plugin.Ledger.SetAttempt(pod.UID, 0, ledger.Attempt{PreemptedAt: time.Now()})
	pod.Status.NominatedNodeName = "s-0"
	f.quarantine(nodes[:2]...)
	state, got := f.filter(t, pod)
	assert.Nil(t, got["s-0"])
	assert.NotNil(t, got["s-1"])
	assert.Nil(t, f.plugin.Reserve(f.ctx, state, pod, "s-0"))
}

// An autoscaler follows the affinity of such a pod, and would launch nodes that Filter refuses.
func TestAPodWhoseGateWasRemovedIsNotRefused(t *testing.T) {
	gated := plugintest.GatedPod("web", 0)
	f, nodes := avoiding(t, 2, asItIs, gated)
	ungated := f.ungate(t, gated)
	f.cluster.SetPods(t, ungated)
	f.quarantine(nodes[0])
	_, got := f.filter(t, ungated)
	assert.Nil(t, got["s-0"])
}

func TestTheReasonsNameFewDomainsInQuarantine(t *testing.T) {
	const named = 8
	const spot = named + 3
	pod := plugintest.Pod("web", 0)
	f, nodes := avoiding(t, spot+1, asItIs, pod)
	f.quarantine(nodes[:spot]...)
	slices.Reverse(f.infos)
	_, got := f.filter(t, pod)
	reasons := map[string]int{}
	for _, status := range got {
		reasons[status.Message()]++
	}
	assert.Equal(t, 3, reasons[interruptions.ReasonOthers])
	assert.Len(t, reasons, named+3, "and on-demand, and none")
	assert.NotEqual(t, interruptions.ReasonOthers, got["s-0"].Message(), "the first ones by name are named, in whatever order nodes are tried")
}

func TestReserveRefusesADomainThatCameIntoQuarantineMeanwhile(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after []int
		refused       bool
	}{
		"the first one":            {nil, []int{0}, true},
		"another one":              {[]int{1}, []int{0, 1}, true},
		"not that of the node":     {nil, []int{1}, false},
		"nothing was left before":  {[]int{0, 1, 2}, []int{0, 1, 2}, false},
		"the quarantine has ended": {[]int{0, 1, 2}, nil, false},
		"others are left by now":   {[]int{1}, []int{0}, true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := plugintest.Pod("web", 0)
			f, nodes := avoiding(t, 3, asItIs, pod)
			quarantine := func(which []int) {
				var list []*corev1.Node
				for _, i := range which {
					list = append(list, nodes[i])
				}
				f.quarantine(list...)
			}
			quarantine(tc.before)
			state, got := f.filter(t, pod)
			require.Nil(t, got["s-0"])
			quarantine(tc.after)
			status := f.plugin.Reserve(f.ctx, state, pod, "s-0")
			if !tc.refused {
				require.Nil(t, status)
				return
			}
			assert.Equal(t, ErrReasonOutrun, status.Message())
			assert.Equal(t, map[string]int{"shop/web-0": 1}, f.cluster.Activated.Pods(), "it is tried again")
		})
	}
}

// A node may be in the snapshot before the ledger has it.
func TestANodeThatTheLedgerDoesNotHaveIsRefused(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f, nodes := avoiding(t, 2, asItIs, pod)
	f.quarantine(nodes[0])
	f.plugin.Ledger.DeleteNode("s-0")
	_, got := f.filter(t, pod)
	assert.NotNil(t, got["s-0"])
	f.quarantine()
	state, got := f.filter(t, pod)
	require.Nil(t, got["s-0"])
	f.quarantine(nodes[0])
	require.NoError(t, f.cluster.Informers.Core().V1().Nodes().Informer().GetIndexer().Add(nodes[0]))
	assert.Equal(t, ErrReasonOutrun, f.plugin.Reserve(f.ctx, state, pod, "s-0").Message())
}

// The snapshot has a node that is deleted when the scheduling queue tries the pods that wait for it.
func TestANodeThatIsDeletedIsNotLeftToAPod(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f, nodes := avoiding(t, 2, asItIs, pod)
	f.quarantine(nodes[0])
	_, got := f.filter(t, pod)
	require.NotNil(t, got["s-0"])
	f.plugin.NodeHandler().OnDelete(nodes[1])
	assert.Equal(t, 1, f.cluster.Activated.Pods()["shop/web-0"], "the ledger wakes it")
	_, got = f.filter(t, pod)
	assert.Nil(t, got["s-0"])

	require.NoError(t, f.cluster.Informers.Core().V1().Nodes().Informer().GetIndexer().Add(nodes[1]))
	_, got = f.filter(t, pod)
	assert.NotNil(t, got["s-0"], "the node is new, and the ledger has it soon")
}

// The last other node departs: the ledger has that before the snapshot, or after it.
func TestANodeThatBeginsToDepartIsNotLeftToAPod(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f, nodes := avoiding(t, 2, asItIs, pod)
	f.quarantine(nodes[0])
	departs := nodes[1].DeepCopy()
	departs.Spec.Taints = []corev1.Taint{{Key: "aws-node-termination-handler/spot-itn", Effect: corev1.TaintEffectNoSchedule}}
	f.plugin.NodeHandler().OnUpdate(nodes[1], departs)
	_, got := f.filter(t, pod)
	assert.Nil(t, got["s-0"])
}

// A pod may wait for its group or a volume between Reserve and Bind.
func TestBindRefusesADomainThatCameIntoQuarantineMeanwhile(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f, nodes := avoiding(t, 2, asItIs, pod)
	state, _ := f.filter(t, pod)
	require.Nil(t, f.plugin.Reserve(f.ctx, state, pod, "s-0"))
	require.NoError(t, cyclestate.Confirm(state, pod))
	f.quarantine(nodes[1])
	require.NoError(t, cyclestate.Confirm(state, pod), "it is that of another node")
	f.quarantine(nodes[0])
	require.EqualError(t, cyclestate.Confirm(state, pod), ErrReasonOutrun)
	assert.Equal(t, ErrReasonOutrun, f.plugin.Bind(f.ctx, state, pod, "s-0").Message())
	cyclestate.Commit(state)
	assert.Nil(t, f.plugin.Bind(f.ctx, state, pod, "s-0"), "its group is committed")
}

// The scheduling queue has no event for the end of a quarantine.
func TestAPodThatAQuarantineRefusedIsTriedAtItsEnd(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f, nodes := avoiding(t, 2, asItIs, pod)
	var woken []string
	throttled := f.plugin.Quarantine.Wake
	f.plugin.Quarantine.Wake = func(namespace string) {
		woken = append(woken, namespace)
		throttled(namespace)
	}
	f.quarantine(nodes[0])
	f.filter(t, pod)
	f.plugin.Quarantine.Set("") // no ConfigMap any more
	assert.Equal(t, 1, f.cluster.Activated.Pods()["shop/web-0"])
	f.filter(t, pod)
	f.quarantine(nodes[0])
	f.plugin.Quarantine.Set("")
	assert.Equal(t, []string{"shop"}, woken, "nothing was refused since")
}

// Its members hold no slot while they wait, and one of them is enough to have the group tried again.
func TestAGroupThatAQuarantineRefusedIsTriedAtItsEnd(t *testing.T) {
	pods := podGroup(2)
	f, nodes := avoiding(t, 2, asItIs, pods...)
	f.quarantine(nodes[0])
	c := f.groupCycle(t)
	for _, pod := range pods {
		_, fits := c.try(pod, "s-0")
		require.False(t, fits)
	}
	c.end()
	f.plugin.Quarantine.Set("")
	assert.Len(t, f.cluster.Activated.Pods(), 1)
}

func TestAQuarantineThatEndsDuringACycleWakesThePod(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f, nodes := avoiding(t, 2, asItIs, pod)
	f.quarantine(nodes[0])
	state := framework.NewCycleState()
	_, status := f.plugin.PreFilter(f.ctx, state, pod, f.infos)
	require.True(t, status.IsSuccess())
	f.quarantine(nodes[0], nodes[1]) // another moment
	require.NotNil(t, f.plugin.Filter(f.ctx, state, pod, f.infos[0]))
	assert.Equal(t, 1, f.cluster.Activated.Pods()["shop/web-0"])
}

func TestANodeOutsideOfQuarantineThatChangesWakesAPod(t *testing.T) {
	pod, other := plugintest.Pod("web", 0), plugintest.Pod("other", 0)
	f, nodes := avoiding(t, 2, asItIs, pod, other)
	f.mix(t, plugintest.CapacityMix("other", 100, 0))
	with := func(n *corev1.Node, change func(*corev1.Node)) *corev1.Node {
		n = n.DeepCopy()
		change(n)
		return n
	}
	taint := func(key string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	hint := func(of *corev1.Pod, before, now *corev1.Node) fwk.QueueingHint {
		h, err := f.plugin.nodeChanged(klog.Background(), of, before, now)
		require.NoError(t, err)
		return h
	}
	tainted := with(nodes[1], taint("gpu"))
	assert.Equal(t, fwk.QueueSkip, hint(pod, nodes[1], tainted), "nothing is in quarantine")
	f.quarantine(nodes[0])
	assert.Equal(t, fwk.Queue, hint(pod, nodes[1], tainted))
	cordoned := with(nodes[1], func(n *corev1.Node) { n.Spec.Unschedulable = true }) // which is no event of the queue, but its taint is
	assert.Equal(t, fwk.QueueSkip, hint(pod, cordoned, with(cordoned, taint(corev1.TaintNodeUnschedulable))), "the ledger woke it at the cordon")
	assert.Equal(t, fwk.Queue, hint(pod, nodes[1], with(nodes[1], taint(corev1.TaintNodeUnschedulable))), "both came at once")
	assert.Equal(t, fwk.Queue, hint(pod, nodes[1], with(nodes[1], taint("aws-node-termination-handler/spot-itn"))), "it departs")
	assert.Equal(t, fwk.Queue, hint(pod, nodes[1], with(nodes[1], func(n *corev1.Node) {
		delete(n.Labels, "karpenter.sh/capacity-type")
	})), "its type is not known any more")
	assert.Equal(t, fwk.Queue, hint(pod, nodes[1], with(nodes[1], func(n *corev1.Node) {
		n.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("1Gi")
	})), "the pod may have no room there any more")
	assert.Equal(t, fwk.Queue, hint(pod, nodes[0], with(nodes[0], func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "c" })))

	assert.Equal(t, fwk.QueueSkip, hint(pod, nodes[0], with(nodes[0], taint("gpu"))), "it is in quarantine")
	assert.Equal(t, fwk.QueueSkip, hint(pod, nodes[1], with(nodes[1], func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: "Any"}}
	})))
	timed := with(tainted, func(n *corev1.Node) { n.Spec.Taints[0].TimeAdded = &metav1.Time{} })
	assert.Equal(t, fwk.QueueSkip, hint(pod, tainted, timed))
	o := plugintest.Node("o", "on-demand")
	assert.Equal(t, fwk.QueueSkip, hint(pod, o, with(o, taint("gpu"))))
	assert.Equal(t, fwk.QueueSkip, hint(other, nodes[1], tainted), "its mix avoids nothing")
	f.mix(t, plugintest.CapacityMix("web", 100, 0))
	f.plugin.resolver = nil // no pod is resolved while no mix avoids domains
	assert.Equal(t, fwk.QueueSkip, hint(pod, nodes[1], tainted))
}

// Of nodes and quarantines of any kind, Filter leaves a pod one of the spot nodes that it could use.
func TestFilterLeavesAPodASpotNode(t *testing.T) {
	selecting := plugintest.Pod("web", 0)
	f := newFixture(t, plugintest.Args(), nil, selecting)
	f.mix(t, plugintest.CapacityMix("web", 100, 0, builders.AvoidInterrupted))
	rapid.Check(t, func(rt *rapid.T) {
		for _, info := range f.infos {
			f.plugin.Ledger.DeleteNode(info.Node().Name)
		}
		f.infos = nil
		var nodes []*corev1.Node
		for i := range rapid.IntRange(1, 5).Draw(rt, "nodes") {
			n := plugintest.Node(plugintest.NodeName("n", i), rapid.SampledFrom([]string{"spot", "spot", "on-demand"}).Draw(rt, "type"))
			n.Labels[corev1.LabelTopologyZone] = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "zone")
			n.Labels[corev1.LabelInstanceTypeStable] = rapid.SampledFrom([]string{"m5", "m6"}).Draw(rt, "instance type")
			n.Spec.Unschedulable = rapid.IntRange(0, 3).Draw(rt, "cordoned") == 0
			nodes = append(nodes, n)
			f.plugin.Ledger.SetNode(n)
			info := framework.NewNodeInfo()
			info.SetNode(n)
			f.infos = append(f.infos, info)
		}
		pod := selecting.DeepCopy()
		if zone := rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "selects"); zone != "" {
			pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone}
		}
		in := rapid.SliceOfDistinct(rapid.SampledFrom(nodes), func(n *corev1.Node) string { return n.Name }).Draw(rt, "quarantine")
		f.quarantine(in...)
		_, got := f.filter(t, pod)
		usable, left, outside := 0, 0, 0
		for _, n := range nodes {
			zone := pod.Spec.NodeSelector[corev1.LabelTopologyZone]
			if typeOf(f, n.Name) != capacity.Spot || n.Spec.Unschedulable || zone != "" && zone != n.Labels[corev1.LabelTopologyZone] {
				continue
			}
			usable++
			seen, _ := f.plugin.Ledger.Node(n.Name)
			if !seen.Quarantined {
				outside++
			}
			if got[n.Name] == nil {
				left++
			}
		}
		require.True(rt, usable == 0 || left > 0, "no domain is left")
		if outside > 0 {
			require.Equal(rt, outside, left)
		}
	})
}
