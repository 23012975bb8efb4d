// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/plugintest"
)

// quarantineEnd is when the quarantines of tests end.
var quarantineEnd = time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)

// quarantine has the domains of nodes in quarantine.
func (f *fixture) quarantine(nodes ...*corev1.Node) {
	domains := map[string]time.Time{}
	for _, n := range nodes {
		domains[capacity.Domain(n.Labels, f.plugin.Args.SpreadSpotOver)] = quarantineEnd
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
	assert.Equal(t, []int64{25, 40, 0}, f.scores(t, state, pods[3]), "crowding counts nevertheless")
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

// Replicas that all run on the one node that is left would be lost together.
func TestAQuarantineDoesNotCrowdReplicasOnOneNode(t *testing.T) {
	nodes := []*corev1.Node{plugintest.Node("s1", "spot"), plugintest.Node("s2", "spot"), plugintest.Node("s3", "spot")}
	pods := make([]*corev1.Pod, 20)
	for i := range pods {
		pods[i] = plugintest.Pod("web", i)
	}
	f := newFixture(t, plugintest.Args(), nodes, plugintest.Objects(pods...)...)
	f.mix(t, plugintest.CapacityMix("web", 100, 0))
	f.quarantine(nodes[0], nodes[1])
	counts := make([]int, len(nodes))
	for i, pod := range pods {
		state, _ := f.filter(t, pod)
		scores := f.scores(t, state, pod)
		best := slices.Index(scores, slices.Max(scores))
		require.Nil(t, f.plugin.Reserve(f.ctx, state, pod, nodes[best].Name))
		if counts[best]++; i == 0 {
			require.Equal(t, 2, best, "it is a preference")
		}
	}
	assert.Less(t, counts[2], 10, "%v", counts)
	assert.Greater(t, counts[2], counts[0], "%v", counts)
}

// fewOthers has 60 nodes sampled of which the last three are in no quarantine, with a pod for which the whole sample is seen.
func fewOthers(t *testing.T, changes ...func(i int, n *corev1.Node)) (f *fixture, pod *corev1.Pod, others []string) {
	t.Helper()
	pod = plugintest.Pod("web", 0)
	pod.Labels[v1alpha1.ResourceLimitLabel] = "small"
	f, _ = sampled(t, pod, 60, append(changes, func(i int, n *corev1.Node) {
		zone := fmt.Sprint("zone-", i%3)
		if i >= 57 {
			zone, others = "zone-left", append(others, n.Name)
		}
		n.Labels[corev1.LabelTopologyZone] = zone
	})...)
	f.quarantine(f.infos[0].Node(), f.infos[1].Node(), f.infos[2].Node())
	return f, pod, others
}

func TestSamplesHaveTheFewNodesOutsideQuarantine(t *testing.T) {
	f, pod, others := fewOthers(t)
	for range 5 {
		names := f.sampleFor(t, pod)
		assert.True(t, names.HasAll(others...), "%v", names)
		assert.Len(t, names, 3+16/4, "and some that are better where these are crowded")
	}
}

func TestAPodThatAvoidsDomainsIsTriedOnTheOtherNodesFirst(t *testing.T) {
	f, pod, others := fewOthers(t)
	f.mix(t, plugintest.CapacityMix("web", 100, 0, builders.AvoidInterrupted))
	assert.ElementsMatch(t, others, f.sampleFor(t, pod).UnsortedList())
}

func TestNodesInQuarantineAreSampledWhereTheOthersAreFull(t *testing.T) {
	f, pod, others := fewOthers(t, func(i int, n *corev1.Node) {
		if i >= 57 {
			n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("1m")
		}
	})
	for range 5 {
		names := f.sampleFor(t, pod)
		assert.Len(t, names, 16)
		assert.False(t, names.HasAny(others...))
	}
}

// They are cached as others are, if all are in quarantine, and not beside others.
func TestTheBestNodesInQuarantineAreInEverySampleOfThese(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	pod.Labels[v1alpha1.ResourceLimitLabel] = "small" // so that the whole sample is seen
	f, _ := sampled(t, pod, 40, roomy)
	best, other := f.infos[7].Node(), f.infos[8].Node() // of different zones
	f.quarantine(best, other)
	for !f.sampleFor(t, pod).Has(best.Name) { // its turn comes
	}
	for range 6 {
		names := f.sampleFor(t, pod)
		assert.True(t, names.Has(best.Name))
		assert.Len(t, names, 16)
	}
	f.quarantine(best)
	samples := 0
	for range 10 { // four of 20 in each
		if f.sampleFor(t, pod).Has(best.Name) {
			samples++
		}
	}
	assert.LessOrEqual(t, samples, 3, "it is in a sample only when it has its turn")
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
