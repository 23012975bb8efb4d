// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/score"
	"berth.dev/berth/test/perf/bench"
)

// outcome is what the pods of a run lost, and how they came to be placed.
type outcome struct {
	// losses in the order of the pods, in points of 100.
	losses []float64
	// used is the number of nodes with pods, of which some had none before.
	used, opened int
	// onNode, inZone and inMachine are, as a mean over the workloads, the most pods on a node, and the differences between the
	// fullest and the emptiest zone and machine type.
	onNode, inZone, inMachine float64
	// deviation is that of the mean utilization of CPU and memory over all nodes, in percentage points.
	deviation float64
}

func mean(losses []float64) (sum float64) {
	for _, l := range losses {
		sum += l / float64(len(losses))
	}
	return sum
}

func percentile(losses []float64, p int) float64 {
	return slices.Sorted(slices.Values(losses))[(len(losses)-1)*p/100]
}

func text(l []float64) string {
	return fmt.Sprintf("mean %.2f p50 %.2f p99 %.2f max %.2f", mean(l), percentile(l, 50), percentile(l, 99), percentile(l, 100))
}

func (o *outcome) end() string {
	return fmt.Sprintf("%d nodes used, %d of them opened; siblings: at most %.2f on a node, zones differ by %.2f, types by %.2f; "+
		"utilization +- %.2f", o.used, o.opened, o.onNode, o.inZone, o.inMachine, o.deviation)
}

// lossCase is a cluster in which a share of the nodes is used, and 2,000 pods of 20 workloads.
type lossCase struct {
	nodes  int
	used   float64
	preset v1alpha1.ScorePreset
	pods   int
}

func (l lossCase) cluster() *cluster {
	return uneven(Scenario{Nodes: l.nodes, OnDemandPerMille: 200, Groups: 20, Pods: l.pods, Policy: l.preset}, l.used)
}

// sampled has the scheduler place all pods with a nodeSampleSize, 0 for all nodes, and the books find the loss of each.
func (l lossCase) sampled(t *testing.T, size int32) (o *outcome, placed map[int]string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := l.cluster()
	profile, err := shipped(size)
	require.NoError(t, err)
	profile.PercentageOfNodesToScore = new(int32(100))
	var custom custom
	custom.policies.Items = []v1alpha1.SchedulingPolicy{policy(namespace, &v1alpha1.ScoreRules{Preset: l.preset}, nil)}
	r, err := runnerWith(ctx, profile, c, custom)
	require.NoError(t, err)
	b, o := newBooks(t, c, l.preset), &outcome{}
	for i := range c.pods {
		pod := &c.pods[i]
		_, node, err := r.place(pod)
		require.NoError(t, err)
		require.NotEmpty(t, node, "pod %d", i)
		_, best, got := b.best(pod, c.types[node], node)
		o.losses = append(o.losses, best-got)
		r.placed[i], r.next = node, i+1
		b.place(pod, node)
	}
	require.Zero(t, r.quality()["mix_error_pods"])
	o.add(b, c)
	return o, r.placed
}

// ideal places all pods on the best of all nodes, by the books.
func (l lossCase) ideal(t *testing.T) (o *outcome, placed map[int]string) {
	t.Helper()
	c := l.cluster()
	b, o, placed := newBooks(t, c, l.preset), &outcome{}, map[int]string{}
	groups := map[string]int{}
	for i := range c.pods {
		pod := &c.pods[i]
		g := pod.Labels["app"]
		node, _, _ := b.best(pod, rule.TypeOf(groups[g]), "")
		require.NotEmpty(t, node, "pod %d", i)
		groups[g]++
		placed[i] = node
		o.losses = append(o.losses, 0)
		b.place(pod, node)
	}
	o.add(b, c)
	return o, placed
}

// add reads the end result from the books.
func (o *outcome) add(b *books, c *cluster) {
	var shares []float64
	for i := range b.nodes {
		n := &b.nodes[i]
		if n.pods > 0 {
			o.used++
		}
		if n.pods > 0 && n.before == 0 {
			o.opened++
		}
		shares = append(shares, 50*(score.Utilization(n.usedCPU, n.cpu)+score.Utilization(n.usedMemory, n.memory)))
	}
	o.deviation = bench.Deviation(shares)
	groups := float64(c.scenario.Groups)
	for g := range c.scenario.Groups {
		s := b.siblings[app(g)]
		o.onNode += float64(most(s.nodes)) / groups
		o.inZone += float64(difference(s.zones, zones)) / groups
		o.inMachine += float64(difference(s.machines, len(machineTypes))) / groups
	}
}

// difference between the most and the least of so many places.
func difference(counts map[string]int, places int) int {
	least := 0
	if len(counts) == places {
		least = most(counts)
		for _, n := range counts {
			least = min(least, n)
		}
	}
	return most(counts) - least
}

var lossPresets = []v1alpha1.ScorePreset{v1alpha1.ScorePresetPack, v1alpha1.ScorePresetSpread, v1alpha1.ScorePresetBalanced}

// Without a sample the scheduler places all pods where the books have the highest score: what they call a loss is one.
func TestTheBooksChooseAsTheScheduler(t *testing.T) {
	for _, preset := range lossPresets {
		l := lossCase{nodes: 60, used: 0.5, preset: preset, pods: 150}
		o, got := l.sampled(t, 0)
		assert.Zero(t, percentile(o.losses, 100), preset)
		_, want := l.ideal(t)
		assert.Equal(t, want, got, preset)
	}
}

// The bounds are those of docs/performance.md with some slack. Pods, nodes and the order of samples are the same in every run.
func TestTheSampleLosesNoMoreThanIsStated(t *testing.T) {
	for preset, most := range map[v1alpha1.ScorePreset]struct{ mean, p99 float64 }{
		v1alpha1.ScorePresetPack:     {0.5, 10},
		v1alpha1.ScorePresetSpread:   {3.5, 18.2},
		v1alpha1.ScorePresetBalanced: {8.5, 40},
	} {
		l := lossCase{nodes: 500, used: 0.2, preset: preset, pods: 2_000}
		got, _ := l.sampled(t, 32)
		assert.LessOrEqual(t, mean(got.losses), most.mean, preset)
		assert.LessOrEqual(t, percentile(got.losses, 99), most.p99, preset)
		switch want, _ := l.ideal(t); preset {
		case v1alpha1.ScorePresetPack:
			assert.LessOrEqual(t, float64(got.used), 1.02*float64(want.used), "nodes used")
		case v1alpha1.ScorePresetSpread:
			assert.LessOrEqual(t, got.onNode, want.onNode, "siblings on a node")
			assert.LessOrEqual(t, got.inZone, want.inZone, "difference between zones")
		}
	}
}

// TestLossOfTheSample prints the table of docs/performance.md.
func TestLossOfTheSample(t *testing.T) {
	bench.Asked(t)
	for _, of := range []lossCase{{nodes: 500, used: 0.2}, {nodes: 5_000, used: 0.2}, {nodes: 5_000, used: 0.02}} {
		for _, of.preset = range lossPresets {
			if of.pods = 2_000; !bench.Chosen(t, fmt.Sprintf("loss/%s/nodes=%d", of.preset, of.nodes)) {
				continue
			}
			o, _ := of.sampled(t, 32)
			t.Logf("%-8s %5d nodes, %3.0f %% used: loss %s", of.preset, of.nodes, 100*of.used, text(o.losses))
			t.Logf("  last 500 pods:   loss %s", text(o.losses[1_500:]))
			t.Logf("  with the sample: %s", o.end())
			o, _ = of.ideal(t)
			t.Logf("  best of all:     %s", o.end())
		}
	}
}
