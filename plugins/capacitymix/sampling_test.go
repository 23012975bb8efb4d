// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/policy"
)

// sampled returns the nodes that a pod is tried on first, of so many spot nodes in two zones.
func sampled(t *testing.T, pod *corev1.Pod, count int, changes ...func(i int, n *corev1.Node)) (*fixture, sets.Set[string]) {
	t.Helper()
	nodes := make([]*corev1.Node, count)
	for i := range nodes {
		nodes[i] = testNode(nodeName("s", i), "spot")
		nodes[i].Labels[corev1.LabelTopologyZone] = fmt.Sprint("zone-", i%2)
		for _, change := range changes {
			change(i, nodes[i])
		}
	}
	args := defaultArgs()
	args.NodeSampleSize = 16
	siblings := []*corev1.Pod{testPod("web", 1), testPod("web", 2)}
	f := newFixture(t, args, nodes, append(objects(siblings...), pod)...)
	f.mix(t, capacityMix("web", 100, 0))
	return f, f.sampleFor(t, pod)
}

func (f *fixture) sampleFor(t *testing.T, pod *corev1.Pod) sets.Set[string] {
	t.Helper()
	result, status := f.plugin.PreFilter(f.ctx, framework.NewCycleState(), pod, f.infos)
	require.True(t, status.IsSuccess())
	if result.AllNodes() {
		return nil
	}
	return result.NodeNames
}

func TestTheBestOfTheSampleAreThoseWithRoom(t *testing.T) {
	_, names := sampled(t, testPod("web", 0), 17, func(i int, n *corev1.Node) {
		if i%4 != 0 { // room for the pod, and not for much more
			n.Status.Allocatable[corev1.ResourceCPU], n.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("110m"), resource.MustParse("70Mi")
		}
	})
	assert.Len(t, names, 4)
	for name := range names {
		assert.Contains(t, []string{nodeName("s", 0), nodeName("s", 4), nodeName("s", 8), nodeName("s", 12), nodeName("s", 16)}, name)
	}
}

func TestTheBestOfTheSampleHaveFewSiblingsAround(t *testing.T) {
	f, _ := sampled(t, testPod("web", 0), 17, func(i int, n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = fmt.Sprint("zone-", i/13) }) // 13 and 4
	sibling := testPod("web", 1)
	state, _ := f.filter(t, sibling)
	require.Nil(t, f.plugin.Reserve(f.ctx, state, sibling, nodeName("s", 0)))
	for range 5 { // wherever the rotation stands
		names := f.sampleFor(t, testPod("web", 0))
		require.NotEmpty(t, names)
		for name := range names {
			n, _ := f.plugin.ledger.Node(name)
			spread := f.plugin.ledger.SpreadOf(keyOf("web"), slices.Values([]string{name}))
			assert.Zero(t, spread.Zone(n), name)
		}
	}
}

func TestTheSampleHasNoNodeWhoseTaintsThePodDoesNotTolerate(t *testing.T) {
	tainted := func(i int, n *corev1.Node) {
		if i > 4 {
			n.Spec.Taints = []corev1.Taint{{Key: "team", Value: "ml", Effect: corev1.TaintEffectNoSchedule}, {Key: "cost", Effect: corev1.TaintEffectPreferNoSchedule}}
		}
	}
	_, names := sampled(t, testPod("web", 0), 40, tainted)
	require.NotEmpty(t, names)
	for name := range names {
		assert.Less(t, name, nodeName("s", 5))
	}
	tolerant := testPod("web", 0)
	tolerant.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
	_, names = sampled(t, tolerant, 40, tainted)
	assert.Len(t, names, 4)
}

// The other plugins choose from the whole sample for pods that say what is better for them.
func TestPodsThatChooseGetTheWholeSample(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"preferred node affinity": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}}}}
		},
		"anti-affinity": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
		},
		"topology spread": func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "rack", LabelSelector: &metav1.LabelSelector{}}}
		},
		"a host port":      func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} },
		"a resource limit": func(p *corev1.Pod) { p.Labels[v1alpha1.ResourceLimitLabel] = "small" },
	} {
		t.Run(name, func(t *testing.T) {
			pod := testPod("web", 0)
			change(pod)
			_, names := sampled(t, pod, 40)
			assert.Len(t, names, 16)
		})
	}
}

func TestWithoutARankTheWholeSampleGoesOn(t *testing.T) {
	pod := testPod("web", 0)
	f, _ := sampled(t, pod, 40)
	f.plugin.rankBy = config.RankSampleByOff
	assert.Len(t, f.sampleFor(t, pod), 16)
}

// Every node has its turn: none is left out for good.
func TestTheSampleGoesRound(t *testing.T) {
	pod := testPod("web", 0)
	pod.Labels[v1alpha1.ResourceLimitLabel] = "small" // so that the whole sample is seen
	f, seen := sampled(t, pod, 40)
	for range 4 {
		seen = seen.Union(f.sampleFor(t, pod))
	}
	assert.Len(t, seen, 40)
}

func TestFinalistsAreTheHighestRankedAndTheFirstOfEqualOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "n")
		all := make([]candidate, n)
		var least crowd
		for i := range all {
			k := crowd{domain: rapid.Int32Range(0, 3).Draw(t, "domain"), zone: rapid.Int32Range(0, 3).Draw(t, "zone"), host: rapid.Int32Range(0, 1).Draw(t, "host")}
			if all[i] = (candidate{name: fmt.Sprint(i), crowd: k, free: rapid.Int64Range(0, 10_000).Draw(t, "free")}); i == 0 {
				least = k
			}
			least = least.fewest(k)
		}
		by, sign := config.RankSampleByLeastAllocated, int64(1)
		if rapid.Bool().Draw(t, "pack") {
			by, sign = config.RankSampleByMostAllocated, -1
		}
		value := func(c candidate) int64 { return 300*c.crowd.score(least) + sign*c.free }
		best := finalists(slices.Clone(all), least, by)
		require.Len(t, best, min(n, max(4, n/8)))
		in := map[string]bool{}
		worst := value(best[0])
		for _, c := range best {
			in[c.name] = true
			worst = min(worst, value(c))
		}
		require.Len(t, in, len(best))
		if len(best) == n {
			return
		}
		for _, c := range all {
			require.True(t, in[c.name] || value(c) <= worst, "%s was left out with %d, the worst has %d", c.name, value(c), worst)
		}
	})
}

// The short way to what a pod requests comes to the same as the library's.
func TestRequestsAreThoseOfTheLibrary(t *testing.T) {
	quantities := func(t *rapid.T, name string) corev1.ResourceList {
		r := corev1.ResourceList{}
		if rapid.Bool().Draw(t, name+" has cpu") {
			r[corev1.ResourceCPU] = *resource.NewMilliQuantity(rapid.Int64Range(0, 5000).Draw(t, name+" cpu"), resource.DecimalSI)
		}
		if rapid.Bool().Draw(t, name+" has memory") {
			r[corev1.ResourceMemory] = *resource.NewQuantity(rapid.Int64Range(0, 1<<35).Draw(t, name+" memory"), resource.BinarySI)
		}
		return r
	}
	containers := func(t *rapid.T, name string) (list []corev1.Container) {
		for range rapid.IntRange(0, 3).Draw(t, name) {
			list = append(list, corev1.Container{Resources: corev1.ResourceRequirements{Requests: quantities(t, name)}})
		}
		return list
	}
	rapid.Check(t, func(t *rapid.T) {
		p := &corev1.Pod{}
		p.Spec.Containers = containers(t, "container")
		if rapid.Bool().Draw(t, "init") {
			p.Spec.InitContainers = containers(t, "init container")
		}
		if rapid.Bool().Draw(t, "overhead") {
			p.Spec.Overhead = quantities(t, "overhead")
		}
		if rapid.Bool().Draw(t, "pod level") {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: quantities(t, "pod")}
		}
		want := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
		cpu, memory := requests(p)
		require.Equal(t, want.Cpu().MilliValue(), cpu)
		require.Equal(t, want.Memory().Value(), memory)
	})
}

func keyOf(app string) policy.GroupKey {
	key, _ := policy.GroupOf(testPod(app, 0), nil)
	return key
}
