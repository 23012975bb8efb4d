// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/test/plugintest"
)

// quarantine has the domains of nodes in quarantine.
func (f *fixture) quarantine(nodes ...*corev1.Node) {
	domains := map[string]struct{}{}
	for _, n := range nodes {
		domains[capacity.Domain(n.Labels, f.plugin.Args.SpreadSpotOver)] = struct{}{}
	}
	f.plugin.Ledger.Quarantine(domains)
}

// The nodes in quarantine have the fewest replicas: they lost the others.
func TestScoreAvoidsDomainsInQuarantine(t *testing.T) {
	nodes := []*corev1.Node{plugintest.Node("s1", "spot"), plugintest.Node("s2", "spot"), plugintest.Node("s3", "spot")}
	pods := []*corev1.Pod{plugintest.Pod("web", 0), plugintest.Pod("web", 1), plugintest.Pod("web", 2), plugintest.Pod("web", 3)}
	f := newFixture(t, plugintest.Args(), nodes, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 100, 0))
	for i, node := range []string{"s2", "s3", "s3"} {
		state, _ := f.filter(t, pods[i])
		require.Nil(t, f.plugin.Reserve(f.ctx, state, pods[i], node))
	}
	state, statuses := f.filter(t, pods[3])
	require.Equal(t, []int64{100, 40, 0}, f.scores(t, state, pods[3]))
	f.quarantine(nodes[0])
	assert.Equal(t, []int64{0, 100, 40}, f.scores(t, state, pods[3]), "the others are compared with each other")
	for _, s := range statuses {
		assert.True(t, s.IsSuccess(), "it is a preference")
	}
	f.quarantine(nodes...)
	assert.Equal(t, []int64{100, 40, 0}, f.scores(t, state, pods[3]), "if no domain is left, they are compared as before")
	f.quarantine()
	assert.Equal(t, []int64{100, 40, 0}, f.scores(t, state, pods[3]))
}

func TestOnDemandPodsAvoidNoDomain(t *testing.T) {
	nodes := []*corev1.Node{plugintest.Node("o1", "on-demand"), plugintest.Node("o2", "on-demand")}
	pod := plugintest.Pod("web", 0)
	f := newFixture(t, plugintest.Args(), nodes, plugintest.Objects(pod)...)
	f.mix(t, plugintest.CapacityMix("web", 0, 0))
	f.quarantine(nodes[0])
	state, _ := f.filter(t, pod)
	assert.Equal(t, []int64{100, 100}, f.scores(t, state, pod))
}

func TestSamplesHaveNoNodeInQuarantine(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f, names := sampled(t, pod, 60, func(i int, n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = fmt.Sprint("zone-", i%3) })
	require.NotEmpty(t, names)
	node := func(i int) *corev1.Node { return f.infos[i].Node() }
	f.quarantine(node(0), node(1))
	for range 5 { // also of the nodes that were cached before
		names := f.sampleFor(t, pod)
		require.NotEmpty(t, names)
		for name := range names {
			n, _ := f.plugin.Ledger.Node(name)
			assert.Equal(t, "zone-2", n.Labels()[corev1.LabelTopologyZone])
		}
	}
	f.quarantine(node(0), node(1), node(2))
	assert.NotEmpty(t, f.sampleFor(t, pod), "if no domain is left, they are sampled as before")
}
