// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"testing"

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
	"berth.dev/berth/plugins/capacitymix/ledger"
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
	const spot = maxNamedDomains + 3
	pod := plugintest.Pod("web", 0)
	f, nodes := avoiding(t, spot+1, asItIs, pod)
	f.quarantine(nodes[:spot]...)
	_, got := f.filter(t, pod)
	reasons := map[string]int{}
	for _, status := range got {
		reasons[status.Message()]++
	}
	assert.Equal(t, 3, reasons[ErrReasonDomainsInterrupted])
	assert.Len(t, reasons, maxNamedDomains+3, "and on-demand, and none")
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

// The scheduling queue has no event for the end of a quarantine.
func TestAPodThatAQuarantineRefusedIsTriedAtItsEnd(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f, nodes := avoiding(t, 2, asItIs, pod)
	f.quarantine(nodes[0])
	f.filter(t, pod)
	f.plugin.Quarantine.Set("") // no ConfigMap any more
	assert.Equal(t, 1, f.cluster.Activated.Pods()["shop/web-0"])
	f.cluster.Activated.Take()
	f.filter(t, pod)
	f.quarantine(nodes[0])
	f.plugin.Quarantine.Set("")
	assert.Empty(t, f.cluster.Activated.Pods(), "nothing was refused since")
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

func TestANodeOutsideOfQuarantineThatIsLostWakesAPod(t *testing.T) {
	pod, other := plugintest.Pod("web", 0), plugintest.Pod("other", 0)
	f, nodes := avoiding(t, 2, asItIs, pod, other)
	f.mix(t, plugintest.CapacityMix("other", 100, 0))
	cordoned, beats := nodes[1].DeepCopy(), nodes[1].DeepCopy()
	cordoned.Spec.Unschedulable = true
	beats.Status.Conditions = []corev1.NodeCondition{{Type: "Any"}}
	timed := nodes[1].DeepCopy()
	timed.Spec.Taints = []corev1.Taint{{Key: "a", TimeAdded: &metav1.Time{}}}
	again := timed.DeepCopy()
	hint := func(of *corev1.Pod, before, now *corev1.Node) fwk.QueueingHint {
		if now == nil {
			h, err := f.plugin.nodeDeleted(klog.Background(), of, before, nil)
			require.NoError(t, err)
			return h
		}
		h, err := f.plugin.nodeChanged(klog.Background(), of, before, now)
		require.NoError(t, err)
		return h
	}
	assert.Equal(t, fwk.QueueSkip, hint(pod, nodes[1], nil), "nothing is in quarantine")
	f.quarantine(nodes[0])
	assert.Equal(t, fwk.Queue, hint(pod, nodes[1], nil))
	assert.Equal(t, fwk.Queue, hint(pod, nodes[1], cordoned))
	assert.Equal(t, fwk.QueueSkip, hint(pod, nodes[1], beats))
	assert.Equal(t, fwk.QueueSkip, hint(pod, timed, again))
	assert.Equal(t, fwk.QueueSkip, hint(pod, plugintest.Node("o", "on-demand"), nil))
	assert.Equal(t, fwk.QueueSkip, hint(other, nodes[1], nil), "its mix avoids nothing")
	f.mix(t, plugintest.CapacityMix("web", 100, 0))
	f.plugin.resolver = nil // no pod is resolved while no mix avoids domains
	assert.Equal(t, fwk.QueueSkip, hint(pod, nodes[1], nil))
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
