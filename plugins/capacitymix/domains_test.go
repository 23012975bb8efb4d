// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/plugintest"
)

// zonesFixture is the plugin with on-demand nodes o-0, o-1, … that are each in a zone of its own, and a mix of on-demand alone.
func zonesFixture(t *testing.T, zones int, change func(*v1alpha1.CapacityMix), pods ...*corev1.Pod) *fixture {
	t.Helper()
	var nodes []*corev1.Node
	for i := range zones {
		nodes = append(nodes, plugintest.Node(plugintest.NodeName("o", i), "on-demand"))
	}
	f := newFixture(t, plugintest.Args(), nodes, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 0, 0, change))
	return f
}

// webs are pods of app web.
func webs(n int) (pods []*corev1.Pod) {
	for i := range n {
		pods = append(pods, plugintest.Pod("web", i))
	}
	return pods
}

// put has a cycle of a pod end on a node.
func (f *fixture) put(t *testing.T, pod *corev1.Pod, node string) *fwk.Status {
	t.Helper()
	state, _ := f.filter(t, pod)
	return f.plugin.Reserve(f.ctx, state, pod, node)
}

func TestFilterRefusesFullDomains(t *testing.T) {
	pods := webs(3)
	f := zonesFixture(t, 2, builders.MaxPerZone(2), pods...)
	require.Nil(t, f.put(t, pods[0], "o-0"))
	_, got := f.filter(t, pods[2])
	assert.Nil(t, got["o-0"])
	require.Nil(t, f.put(t, pods[1], "o-0"))
	_, got = f.filter(t, pods[2])
	assert.Nil(t, got["o-1"])
	assert.Equal(t, fwk.UnschedulableAndUnresolvable, got["o-0"].Code(), "preemption does not help")
	assert.Equal(t, "node(s) are in a full domain: 2 of at most 2 replicas are in o-0", got["o-0"].Message())
}

func TestFilterRefusesNodesOfNoDomain(t *testing.T) {
	pod, node := plugintest.Pod("web", 0), plugintest.Node("o-0", "on-demand")
	delete(node.Labels, corev1.LabelTopologyZone)
	f := newFixture(t, plugintest.Args(), []*corev1.Node{node}, pod)
	f.mix(t, plugintest.CapacityMix("web", 0, 0, builders.MaxPerZone(2)))
	_, got := f.filter(t, pod)
	assert.Equal(t, "node(s) lack the label topology.kubernetes.io/zone of maxPerDomain", got["o-0"].Message())
}

// The condition of a pod has all reasons of all nodes.
func TestTheReasonsNameFewDomains(t *testing.T) {
	const zones = maxFullDomains + 3
	pods := webs(zones + 1)
	f := zonesFixture(t, zones, builders.MaxPerZone(1), pods...)
	for i := range zones {
		require.Nil(t, f.put(t, pods[i], plugintest.NodeName("o", i)))
	}
	_, got := f.filter(t, pods[zones])
	reasons := map[string]int{}
	for _, status := range got {
		reasons[status.Message()]++
	}
	assert.Len(t, reasons, maxFullDomains+1)
	assert.Equal(t, 3, reasons[ErrReasonDomainsFull])
}

// Two cycles find the same domain, as a pod that waits in Permit or one that another scheduler binds.
func TestReserveRefusesADomainThatWasFilledMeanwhile(t *testing.T) {
	pods := webs(2)
	f := zonesFixture(t, 1, builders.MaxPerZone(1), pods...)
	state, got := f.filter(t, pods[1])
	require.Nil(t, got["o-0"])
	bound := pods[0].DeepCopy()
	bound.Spec.NodeName = "o-0"
	f.addPod(bound)
	status := f.plugin.Reserve(f.ctx, state, pods[1], "o-0")
	assert.Equal(t, fwk.Unschedulable, status.Code())
	assert.Equal(t, ErrReasonDomainFull, status.Message())
	assert.Equal(t, map[string]int{"shop/web-1": 1}, f.cluster.Activated.Pods(), "it is tried again")
}

func TestReserveKeepsAnUngatedPodToTheLimit(t *testing.T) {
	gated, bound := plugintest.GatedPod("web", 0), plugintest.Pod("web", 1)
	f := zonesFixture(t, 1, builders.MaxPerZone(1), gated, bound)
	ungated := f.ungate(t, gated)
	f.cluster.SetPods(t, ungated)
	state, got := f.filter(t, ungated)
	require.Nil(t, got["o-0"])
	bound = bound.DeepCopy()
	bound.Spec.NodeName = "o-0"
	f.addPod(bound)
	assert.Equal(t, ErrReasonDomainFull, f.plugin.Reserve(f.ctx, state, ungated, "o-0").Message())
	_, got = f.filter(t, ungated)
	assert.Contains(t, got["o-0"].Message(), "1 of at most 1 replica is in o-0")
}

// A sibling that starts to terminate has no event in the scheduling queue.
func TestAPodThatFullDomainsRefusedIsTriedWhenASiblingLeaves(t *testing.T) {
	pods := webs(2)
	f := zonesFixture(t, 1, builders.MaxPerZone(1), pods...)
	require.Nil(t, f.put(t, pods[0], "o-0"))
	state, got := f.filter(t, pods[1])
	statuses := framework.NewDefaultNodeToStatus()
	for node, status := range got {
		statuses.Set(node, status)
	}
	_, _ = f.plugin.PostFilter(f.ctx, state, pods[1], statuses)
	f.cluster.Activated.Take() // of the next stage
	leaving := pods[0].DeepCopy()
	leaving.Spec.NodeName, leaving.DeletionTimestamp = "o-0", &leaving.CreationTimestamp
	f.addPod(leaving)
	assert.Equal(t, 1, f.cluster.Activated.Pods()["shop/web-1"])
	_, got = f.filter(t, pods[1])
	assert.Nil(t, got["o-0"])
}

func TestANodeThatChangesItsDomainWakesAPod(t *testing.T) {
	pod, other := plugintest.Pod("web", 0), plugintest.Pod("other", 0)
	f := zonesFixture(t, 1, builders.MaxPerZone(1), pod, other)
	f.mix(t, plugintest.CapacityMix("other", 0, 0))
	node := plugintest.Node("o-0", "on-demand")
	moved := node.DeepCopy()
	moved.Labels[corev1.LabelTopologyZone] = "another"
	renamed := node.DeepCopy()
	renamed.Labels["other"] = "label"
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		node *corev1.Node
		want fwk.QueueingHint
	}{
		"another domain":                       {pod, moved, fwk.Queue},
		"another label":                        {pod, renamed, fwk.QueueSkip},
		"a pod of which no domain is limited":  {other, moved, fwk.QueueSkip},
		"nothing of what the mix limits moved": {pod, node.DeepCopy(), fwk.QueueSkip},
	} {
		hint, err := f.plugin.nodeChanged(klog.Background(), tc.pod, node, tc.node)
		require.NoError(t, err)
		assert.Equal(t, tc.want, hint, name)
	}
	f.mix(t, plugintest.CapacityMix("web", 0, 0))
	f.plugin.resolver = nil // no pod is resolved while no mix has limits
	hint, err := f.plugin.nodeChanged(klog.Background(), pod, node, moved)
	require.NoError(t, err)
	assert.Equal(t, fwk.QueueSkip, hint)
}

func TestScorePrefersDomainsBelowALimitThatIsAPreference(t *testing.T) {
	pods := webs(4)
	f := zonesFixture(t, 2, func(cm *v1alpha1.CapacityMix) {
		builders.MaxPerZone(1)(cm)
		cm.Spec.MaxPerDomain[0].WhenUnsatisfiable = v1alpha1.WhenDomainFullScheduleAnyway
	}, pods...)
	require.Nil(t, f.put(t, pods[0], "o-0"))
	state, got := f.filter(t, pods[1])
	require.Nil(t, got["o-0"], "a preference refuses nothing")
	limited := f.scores(t, state, pods[1])

	without := zonesFixture(t, 2, func(*v1alpha1.CapacityMix) {}, pods...)
	require.Nil(t, without.put(t, pods[0], "o-0"))
	state, _ = without.filter(t, pods[1])
	assert.Equal(t, without.scores(t, state, pods[1])[1], limited[1])
	assert.Less(t, limited[0], without.scores(t, state, pods[1])[0], "beyond what the spread takes off")
}

// The emptiest nodes are in a zone that is full.
func TestTheSampleHasNoNodeOfAFullDomain(t *testing.T) {
	var nodes []*corev1.Node
	for i := range 60 {
		n := plugintest.Node(plugintest.NodeName("o", i), "on-demand")
		n.Labels[corev1.LabelTopologyZone] = fmt.Sprint("zone-", i%3)
		nodes = append(nodes, n)
	}
	pods := webs(3)
	args := plugintest.Args()
	args.NodeSampleSize = 16
	f := newFixture(t, args, nodes, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 0, 0, builders.MaxPerZone(1)))
	require.Nil(t, f.put(t, pods[0], "o-0"))
	require.Nil(t, f.put(t, pods[1], "o-1"))
	state := framework.NewCycleState()
	result, status := f.plugin.PreFilter(f.ctx, state, pods[2], f.infos)
	require.True(t, status.IsSuccess())
	require.NotEmpty(t, result.NodeNames)
	for name := range result.NodeNames {
		n, _ := f.plugin.Ledger.Node(name)
		assert.Equal(t, "zone-2", n.Labels()[corev1.LabelTopologyZone])
	}
}
