// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/policies/score"
)

func TestAPodWithoutAPolicyIsNotScored(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noArgs(), fleetOf(3)...)
	_, scores := f.run(t, pod("a", ""), f.infos(t))
	for _, s := range scores {
		assert.Empty(t, s.Scores)
	}
}

func TestRulesOfTheProfileGovernPodsWithoutAPolicy(t *testing.T) {
	t.Parallel()
	args := noArgs()
	args.DefaultPolicy = &v1alpha1.SchedulingRules{Score: &v1alpha1.ScoreRules{Preset: v1alpha1.ScorePresetPack}}
	f := newFixture(t, args, fleetOf(3)...)
	f.snapshot(pod("a", "n01"))
	on, _ := f.place(t, pod("b", ""))
	assert.Equal(t, "n01", on)

	f.set(policy(preset(v1alpha1.ScorePresetSpread)))
	on, _ = f.place(t, pod("c", ""))
	assert.NotEqual(t, "n01", on, "a policy takes the place of the rules of the profile")
}

func TestInvalidRulesOfAProfileStopTheScheduler(t *testing.T) {
	t.Parallel()
	args := noArgs()
	args.DefaultPolicy = &v1alpha1.SchedulingRules{Score: &v1alpha1.ScoreRules{Preset: "Fast"}}
	_, err := NewFactory(NewRecorder(nil), nil, nil, nil)(t.Context(), args, nil)
	assert.ErrorContains(t, err, `pluginConfig.SchedulingPolicy.args.defaultPolicy.score.preset: "Fast" is not supported`)
	args.SyncTimeoutSeconds = 0
	_, err = NewFactory(NewRecorder(nil), nil, nil, nil)(t.Context(), args, nil)
	assert.ErrorContains(t, err, "pluginConfig.SchedulingPolicy.args.syncTimeoutSeconds")
	_, err = NewFactory(NewRecorder(nil), nil, nil, nil)(t.Context(), nil, nil)
	assert.ErrorContains(t, err, "SchedulingPolicyArgs")
}

func TestPresetsPlaceAsTheirNamesPromise(t *testing.T) {
	t.Parallel()
	spot := labelled("karpenter.sh/capacity-type", "spot")
	onDemand := labelled("karpenter.sh/capacity-type", "on-demand")
	prefers := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 10, Preference: corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"c"}}},
			}}},
		}}
	}
	nodes := []*corev1.Node{node("a", "1", onDemand), node("b", "1", onDemand), node("c", "2", onDemand), node("d", "2", spot)}
	for name, test := range map[v1alpha1.ScorePreset]struct {
		running []*corev1.Pod
		pod     *corev1.Pod
		want    string
	}{
		v1alpha1.ScorePresetPack:   {[]*corev1.Pod{pod("1", "b"), pod("2", "b"), pod("3", "c")}, pod("x", ""), "b"},
		v1alpha1.ScorePresetSpread: {[]*corev1.Pod{pod("1", "a"), pod("2", "b"), pod("3", "c")}, pod("x", ""), "d"},
		v1alpha1.ScorePresetBalanced: {[]*corev1.Pod{
			pod("1", "a", requests("100m", "4Gi")), pod("2", "b", requests("2", "1Gi")), pod("3", "c", requests("3", "6Gi")), pod("4", "d", requests("3", "6Gi")),
		}, pod("x", "", requests("500m", "3Gi")), "b"},
		v1alpha1.ScorePresetLocality: {[]*corev1.Pod{pod("1", "c")}, pod("x", "", prefers), "c"},
		v1alpha1.ScorePresetCost:     {[]*corev1.Pod{pod("1", "a"), pod("2", "b")}, pod("x", ""), "d"},
	} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, noArgs(), nodes...)
			f.snapshot(test.running...)
			f.set(policy(preset(name)))
			on, _ := f.place(t, test.pod)
			assert.Equal(t, test.want, on)
		})
	}
}

// The preset Cost classifies nodes as CapacityMix does, whatever rules it has.
func TestCostPrefersTheSpotNodesOfCapacityMix(t *testing.T) {
	t.Parallel()
	own, err := capacity.NewClassifier([]capacity.Rule{{Name: "own", Key: "cheap", Operator: capacity.Exists, Type: capacity.Spot}})
	require.NoError(t, err)
	f := newFixture(t, noArgs(), node("a", "1"), node("b", "1", labelled("cheap", "")))
	f.set(policy(preset(v1alpha1.ScorePresetCost)))
	on, _ := f.place(t, pod("x", ""))
	assert.Equal(t, "a", on, "the shipped rules do not know the label")
	f.classifiers.Set(f.Ctx, f.plugin.handle, own)
	on, _ = f.place(t, pod("x", ""))
	assert.Equal(t, "b", on)
}

// A cluster autoscaler puts such a taint on the nodes that it is about to remove.
func TestNodesToAvoidComeLast(t *testing.T) {
	t.Parallel()
	tainted := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "DeletionCandidateOfClusterAutoscaler", Effect: corev1.TaintEffectPreferNoSchedule}}
	}
	f := newFixture(t, noArgs(), node("a", "1", tainted), node("b", "1"))
	f.snapshot(pod("1", "a"), pod("2", "a"))
	f.set(policy(preset(v1alpha1.ScorePresetPack)))
	on, _ := f.place(t, pod("x", ""))
	assert.Equal(t, "b", on)
	tolerates := func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }
	on, _ = f.place(t, pod("x", "", tolerates))
	assert.Equal(t, "a", on)
}

func TestRoundRobinTakesTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noArgs(), fleetOf(5)...)
	f.set(policy(functions(v1alpha1.ScoreAntiAffinity), tieBreaker(v1alpha1.TieBreakerRoundRobin)))
	counts := map[string]int{}
	for i := range 13 {
		on, _ := f.place(t, pod(fmt.Sprint(i), ""))
		counts[on]++
	}
	assert.Equal(t, map[string]int{"n00": 3, "n01": 3, "n02": 3, "n03": 2, "n04": 2}, counts)

	// Where one node is feasible the framework scores none.
	state := framework.NewCycleState()
	_, status, _ := f.framework.RunPreFilterPlugins(f.Ctx, state, pod("only", ""))
	require.True(t, status.IsSuccess())
	require.True(t, f.framework.RunReservePluginsReserve(f.Ctx, state, pod("only", ""), "n00").IsSuccess())
	on, _ := f.place(t, pod("next", ""))
	assert.Equal(t, "n03", on, "it had no turn for longest: that of another pod's only node does not change this")
}

// Every second pod fits on the last node only.
func TestRoundRobinIsFairBesidePinnedPods(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noArgs(), fleetOf(8)...)
	f.set(policy(functions(v1alpha1.ScoreAntiAffinity), tieBreaker(v1alpha1.TieBreakerRoundRobin)))
	last, err := f.Snapshot.NodeInfos().Get("n07")
	require.NoError(t, err)
	counts := map[string]int{}
	for i := range 32 {
		on, _ := f.place(t, pod(fmt.Sprint("free-", i), ""))
		counts[on]++
		f.placeIn(t, pod(fmt.Sprint("pinned-", i), ""), []fwk.NodeInfo{last})
	}
	for _, n := range f.nodes[:7] {
		assert.GreaterOrEqual(t, counts[n.Name], 4, "%v", counts)
		assert.LessOrEqual(t, counts[n.Name], 5, "%v", counts)
	}
}

// drawPod draws a pod of one of a few workloads, with preferences.
func drawPod(t *rapid.T, name, on string) *corev1.Pod {
	p := pod(name, on, requests(rapid.SampledFrom([]string{"100m", "500m", "1"}).Draw(t, "cpu"), rapid.SampledFrom([]string{"64Mi", "1Gi"}).Draw(t, "memory")))
	app := rapid.SampledFrom([]string{"web", "db", "bare"}).Draw(t, "app")
	p.Labels = map[string]string{"app": app}
	p.OwnerReferences[0].UID = types.UID(app)
	if app == "bare" {
		p.OwnerReferences = nil
	}
	if on != "" && rapid.IntRange(0, 9).Draw(t, "deleted") == 0 {
		p.DeletionTimestamp = &metav1.Time{}
	}
	term := corev1.WeightedPodAffinityTerm{
		Weight: rapid.Int32Range(1, 100).Draw(t, "weight"),
		PodAffinityTerm: corev1.PodAffinityTerm{
			TopologyKey:   rapid.SampledFrom([]string{corev1.LabelHostname, corev1.LabelTopologyZone}).Draw(t, "key"),
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": rapid.SampledFrom([]string{"web", "db"}).Draw(t, "to")}},
		},
	}
	switch rapid.IntRange(0, 3).Draw(t, "affinity") {
	case 0:
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{term}}}
	case 1:
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{term}}}
	}
	if rapid.Bool().Draw(t, "spread") {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: rapid.Int32Range(1, 3).Draw(t, "maxSkew"), TopologyKey: corev1.LabelTopologyZone,
			WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		}}
	}
	return p
}

// Whatever the cluster, the policy and the pod, the selected node is one with the highest sum of weighted values, the counts
// behind these are those of a scan of all pods, and a hundred orders of the nodes lead to the same one.
func TestTheSelectedNodeIsTheBestOfAll(t *testing.T) {
	every := []v1alpha1.ScoreFunctionName{
		v1alpha1.ScoreResourceBalance, v1alpha1.ScoreSpreading, v1alpha1.ScoreBinpacking, v1alpha1.ScorePreferredAffinity,
		v1alpha1.ScoreAntiAffinity, v1alpha1.ScoreTopologySpread,
	}
	f := newFixture(t, noArgs(), fleetOf(9)...)
	generation := int64(0)
	rapid.Check(t, func(t *rapid.T) {
		var running []*corev1.Pod
		for i := range rapid.IntRange(0, 25).Draw(t, "running") {
			running = append(running, drawPod(t, fmt.Sprint("r", i), f.nodes[rapid.IntRange(0, 8).Draw(t, "on")].Name))
		}
		f.snapshot(running...)
		p := policy(functions(rapid.SliceOfNDistinct(rapid.SampledFrom(every), 1, 6, rapid.ID[v1alpha1.ScoreFunctionName]).Draw(t, "functions")...),
			tieBreaker(rapid.SampledFrom([]v1alpha1.TieBreaker{v1alpha1.TieBreakerName, v1alpha1.TieBreakerLeastLoaded, v1alpha1.TieBreakerAffinityBased}).Draw(t, "tie")))
		generation++
		p.Generation = generation
		f.set(p)

		x := drawPod(t, "x", "")
		on, state := f.place(t, x)
		table, infos := read(state).table, slices.Clone(f.infos(t)) // the scheduler does not change its own list
		require.Equal(t, on, table.candidates[table.selected].Node)
		for i := range table.candidates {
			facts, sum := &table.facts[i], 0.0
			if read(state).governor.rules.Has(v1alpha1.ScoreSpreading) {
				requireCounts(t, facts, x, running, infos[i].Node())
			}
			for _, fn := range read(state).governor.rules.Functions {
				sum += fn.Coefficient * score.Value(fn.Name, facts, table.most)
			}
			require.InDelta(t, sum, table.candidates[i].Score, 1e-9)
			require.LessOrEqual(t, sum, table.candidates[table.selected].Score+1e-9)
		}
		for range 100 {
			rand.Shuffle(len(infos), func(i, j int) { infos[i], infos[j] = infos[j], infos[i] })
			again, scores := f.run(t, x, infos)
			require.Equal(t, on, read(again).table.candidates[read(again).table.selected].Node)
			require.Equal(t, fwk.MaxScore, scoreOf(scores, on))
		}
	})
}

func scoreOf(scores []fwk.NodePluginScores, node string) int64 {
	for _, s := range scores {
		if s.Name == node {
			return s.TotalScore
		}
	}
	return -1
}

// requireCounts requires the numbers of siblings that a scan finds.
func requireCounts(t *rapid.T, facts *score.Facts, x *corev1.Pod, running []*corev1.Pod, n *corev1.Node) {
	zones := map[string]string{}
	for _, node := range fleetOf(9) {
		zones[node.Name] = node.Labels[corev1.LabelTopologyZone]
	}
	var onNode, inZone, all int
	for _, p := range running {
		if p.DeletionTimestamp != nil || p.Labels["app"] != x.Labels["app"] {
			continue
		}
		all++
		if p.Spec.NodeName == n.Name {
			onNode++
		}
		if zones[p.Spec.NodeName] == zones[n.Name] {
			inZone++
		}
	}
	require.Equal(t, []int{onNode, inZone, all}, []int{facts.OnNode, facts.InZone, facts.InDomain})
}
