// SPDX-License-Identifier: Apache-2.0

// Package transparency_test compares where Berth and the stock scheduler place
// pods that have no mix.
package transparency_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true})) }

// seedEnv repeats a run: the seed that it printed.
const seedEnv = "BERTH_TEST_SEED"

// firstSeed is a new one for every run, unless the environment has one.
func firstSeed(t *testing.T) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv(seedEnv), strconv.FormatInt(time.Now().Unix(), 10)), 10, 63)
	require.NoError(t, err, seedEnv)
	return seed
}

// tieFree multiplies the stock weights by more than NodeAffinity, at weight 1,
// can give: it decides only between nodes that all else leaves equal, where the
// stock scheduler throws a coin.
func tieFree(c testenv.Config) {
	for _, profile := range c.Profiles() {
		plugins, ok := profile["plugins"].(map[string]any)
		if !ok {
			plugins = map[string]any{}
			profile["plugins"] = plugins
		}
		// The shipped profiles have the scoring of PodTopologySpread by another name.
		spread, score := "PodTopologySpread", map[string]any{}
		if shipped, ok := plugins["score"].(map[string]any); ok {
			spread, score["disabled"] = "TopologySpreadScore", shipped["disabled"]
		}
		enabled := []any{map[string]any{"name": "NodeAffinity", "weight": 1}}
		for name, weight := range map[string]int{
			"TaintToleration": 3, "NodeResourcesFit": 1, spread: 2, "InterPodAffinity": 2,
			"NodeResourcesBalancedAllocation": 1, "ImageLocality": 1,
		} {
			enabled = append(enabled, map[string]any{"name": name, "weight": weight * 101})
		}
		score["enabled"] = enabled
		plugins["score"] = score
	}
}

// unplugged takes everything of Berth out of a configuration.
func unplugged(c testenv.Config) {
	for _, profile := range c.Profiles() {
		delete(profile, "plugins")
		delete(profile, "pluginConfig")
	}
}

// A contestant is one scheduler to place the pods.
type contestant struct {
	name, schedulerName string
	options             func(w *testenv.World) cluster.ProgramOptions
}

func contestants(t *testing.T) []contestant {
	t.Helper()
	stock, err := cluster.Binary(t.Context(), os.Stderr, cluster.StockScheduler)
	require.NoError(t, err)
	return []contestant{
		{"stock", builders.Scheduler, func(w *testenv.World) cluster.ProgramOptions {
			o := w.Variant(testenv.SecondScheduler, unplugged, tieFree)
			o.Binary, o.Name, o.User = stock, "stock", "system:kube-scheduler"
			return o
		}},
		{"second scheduler", builders.Scheduler, func(w *testenv.World) cluster.ProgramOptions { return w.Variant(testenv.SecondScheduler, tieFree) }},
		{"replacement of the default scheduler", corev1.DefaultSchedulerName, func(w *testenv.World) cluster.ProgramOptions { return w.Variant(testenv.ReplaceDefault, tieFree) }},
	}
}

func TestPodsWithoutAMixArePlacedAsTheStockSchedulerPlacesThem(t *testing.T) {
	contestants := contestants(t)
	first := firstSeed(t)
	for seed := first; seed < first+3; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Logf("repeat with %s=%d", seedEnv, seed)
			r := rand.New(rand.NewPCG(seed, seed))
			w := testenv.New(t, randomNodes(r)...)
			// A mix is about, but not for these pods.
			w.Create(builders.CapacityMix("another", 50, 1))
			w.Create(&corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: serviceApp},
				Spec:       corev1.ServiceSpec{Selector: builders.Labels(serviceApp), Ports: []corev1.ServicePort{{Port: 80}}},
			})
			sequence := randomPods(r)
			var want []string
			for _, c := range contestants {
				got := place(w, c, sequence)
				if want == nil {
					want = got
					requireVaried(t, want)
					continue
				}
				assert.Equal(t, want, got, "stock, then %s; seed %d", c.name, seed)
			}
		})
	}
}

// place has one scheduler place the pods one by one and returns, for each, its
// node or why it has none. No pod is left.
func place(w *testenv.World, c contestant, sequence []*corev1.Pod) []string {
	w.T.Helper()
	s := w.RunScheduler(c.options(w))
	defer testenv.Kill(s)
	now := client.GracePeriodSeconds(0)
	outcomes := make([]string, 0, len(sequence))
	for _, p := range sequence {
		p = p.DeepCopy()
		p.Spec.SchedulerName = c.schedulerName
		w.Create(p)
		var outcome string
		w.Eventually(p.Name+" is placed or refused", func() (bool, string) {
			outcome = outcomeOf(testenv.Read(w, p.Name, &corev1.Pod{}))
			return outcome != "", "neither"
		})
		outcomes = append(outcomes, p.Name+": "+outcome)
		if outcome[0] == '0' { // refused: it must not come again in between
			w.Delete(p, now)
		}
	}
	require.NoError(w.T, w.Client.DeleteAllOf(w.Ctx, &corev1.Pod{}, client.InNamespace(w.Namespace), now))
	testenv.Becomes(w.UpTo(20*time.Second), "no pod is left", 0, func() int { return len(w.Pods()) })
	return outcomes
}

// outcomeOf returns the pod's node, or the reason that it has none, or "" yet.
func outcomeOf(p *corev1.Pod) string {
	if p.Spec.NodeName != "" {
		return p.Spec.NodeName
	}
	return testenv.PodCondition(p, corev1.PodScheduled).Message
}

// requireVaried makes sure that the random pods put something to the test.
func requireVaried(t *testing.T, outcomes []string) {
	t.Helper()
	distinct := map[string]bool{}
	placed := 0
	for _, o := range outcomes {
		_, outcome, _ := strings.Cut(o, ": ")
		distinct[outcome] = true
		if outcome[0] == 'n' {
			placed++
		}
	}
	t.Logf("%d of %d pods placed, %d distinct outcomes", placed, len(outcomes), len(distinct))
	require.Greater(t, placed, pods/2, "pods that were placed")
	require.Greater(t, len(distinct), nodes/3, "distinct outcomes")
}

const (
	nodes, pods = 20, 40
	diskLabel   = "example.com/disk"
	tierTaint   = "example.com/tier"
	serviceApp  = "served" // the app that has a Service, and so is spread by default
)

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// chance is true in so many of a hundred cases.
func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// randomNodes are of all capacity types, sizes and zones, some with taints.
func randomNodes(r *rand.Rand) []cluster.NodeSpec {
	specs := make([]cluster.NodeSpec, nodes)
	for i := range specs {
		n := cluster.NodeSpec{
			Name: fmt.Sprintf("n-%d", i), CapacityType: pick(r, "spot", "spot", "on-demand", ""),
			Zone: pick(r, "a", "b", "c"), InstanceType: pick(r, "m", "c"),
			CPU: pick(r, "1", "2", "4", "8"), Memory: pick(r, "2Gi", "4Gi", "8Gi", "16Gi"),
			Labels: map[string]string{diskLabel: pick(r, "ssd", "hdd")},
		}
		if chance(r, 25) {
			n.Taints = append(n.Taints, corev1.Taint{Key: tierTaint, Value: pick(r, "x", "y"), Effect: corev1.TaintEffectNoSchedule})
		}
		if chance(r, 25) {
			n.Taints = append(n.Taints, corev1.Taint{Key: tierTaint, Value: "busy", Effect: corev1.TaintEffectPreferNoSchedule})
		}
		if chance(r, 20) {
			// What Berth takes for a node that is about to go; the stock scheduler gives it no meaning.
			n.Taints = append(n.Taints, corev1.Taint{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectPreferNoSchedule})
		}
		specs[i] = n
	}
	return specs
}

// randomPods request all that the stock plugins look at. Each prefers every
// node differently, by which all ties are broken.
func randomPods(r *rand.Rand) []*corev1.Pod {
	list := make([]*corev1.Pod, pods)
	for i := range list {
		app := pick(r, "a", "b", serviceApp)
		p := builders.Pod(app, fmt.Sprintf("p-%d", i))
		p.Spec.Containers[0].Resources.Requests = builders.Requests(pick(r, "100m", "300m", "700m", "1500m", "3"), pick(r, "64Mi", "700Mi", "2Gi", "5Gi"))
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: distinctPreferences(r)}}
		if chance(r, 40) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: tierTaint, Operator: corev1.TolerationOpEqual, Value: pick(r, "x", "y")}}
		}
		if chance(r, 20) {
			p.Spec.NodeSelector = map[string]string{diskLabel: pick(r, "ssd", "hdd", "hdd", "tape")}
		}
		if chance(r, 20) {
			p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				term(corev1.LabelTopologyZone, corev1.NodeSelectorOpNotIn, pick(r, "a", "b", "c")),
			}}
		}
		if app != serviceApp && chance(r, 50) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: int32(1 + r.IntN(2)), TopologyKey: pick(r, corev1.LabelTopologyZone, corev1.LabelHostname),
				WhenUnsatisfiable: pick(r, corev1.DoNotSchedule, corev1.ScheduleAnyway),
				LabelSelector:     &metav1.LabelSelector{MatchLabels: builders.Labels(app)},
			}}
		}
		if chance(r, 25) {
			other := corev1.PodAffinityTerm{TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: builders.Labels(pick(r, "a", "b"))}}
			weighted := []corev1.WeightedPodAffinityTerm{{Weight: int32(1 + r.IntN(100)), PodAffinityTerm: other}}
			if chance(r, 50) {
				p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted}
			} else {
				p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted}
			}
		}
		list[i] = p
	}
	return list
}

func term(key string, operator corev1.NodeSelectorOperator, value string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: []string{value}}}}
}

// distinctPreferences gives every node another weight.
func distinctPreferences(r *rand.Rand) []corev1.PreferredSchedulingTerm {
	weights := r.Perm(100)
	terms := make([]corev1.PreferredSchedulingTerm, nodes)
	for i := range terms {
		terms[i] = corev1.PreferredSchedulingTerm{
			Weight:     int32(weights[i] + 1),
			Preference: term(corev1.LabelHostname, corev1.NodeSelectorOpIn, fmt.Sprintf("n-%d", i)),
		}
	}
	return terms
}
