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
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/nodesample"
	"berth.dev/berth/plugins/internal/cyclestate"
	"berth.dev/berth/test/plugintest"
)

// sampled returns the nodes that a pod is tried on first, of so many spot nodes in two zones.
func sampled(t *testing.T, pod *corev1.Pod, count int, changes ...func(i int, n *corev1.Node)) (*fixture, sets.Set[string]) {
	t.Helper()
	nodes := make([]*corev1.Node, count)
	for i := range nodes {
		nodes[i] = plugintest.Node(plugintest.NodeName("s", i), "spot")
		nodes[i].Labels[corev1.LabelTopologyZone] = fmt.Sprint("zone-", i%2)
		for _, change := range changes {
			change(i, nodes[i])
		}
	}
	args := plugintest.Args()
	args.NodeSampleSize = 16
	siblings := []*corev1.Pod{plugintest.Pod("web", 1), plugintest.Pod("web", 2)}
	f := newFixture(t, args, nodes, append(plugintest.Objects(siblings...), pod)...)
	f.mix(t, plugintest.CapacityMix("web", 100, 0))
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
	_, names := sampled(t, plugintest.Pod("web", 0), 17, func(i int, n *corev1.Node) {
		if i%4 != 0 { // room for the pod, and not for much more
			n.Status.Allocatable[corev1.ResourceCPU], n.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("110m"), resource.MustParse("70Mi")
		}
	})
	assert.Len(t, names, 4)
	for name := range names {
		assert.Contains(t, []string{plugintest.NodeName("s", 0), plugintest.NodeName("s", 4), plugintest.NodeName("s", 8), plugintest.NodeName("s", 12), plugintest.NodeName("s", 16)}, name)
	}
}

func TestTheBestOfTheSampleHaveFewSiblingsAround(t *testing.T) {
	f, _ := sampled(t, plugintest.Pod("web", 0), 17, func(i int, n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = fmt.Sprint("zone-", i/13) }) // 13 and 4
	sibling := plugintest.Pod("web", 1)
	state, _ := f.filter(t, sibling)
	require.Nil(t, f.plugin.Reserve(f.ctx, state, sibling, plugintest.NodeName("s", 0)))
	for range 5 { // at any position of the rotation
		names := f.sampleFor(t, plugintest.Pod("web", 0))
		require.NotEmpty(t, names)
		for name := range names {
			n, _ := f.plugin.Ledger.Node(name)
			spread := f.plugin.Ledger.SpreadOf(keyOf("web"), slices.Values([]string{name}))
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
	_, names := sampled(t, plugintest.Pod("web", 0), 40, tainted)
	require.NotEmpty(t, names)
	for name := range names {
		assert.Less(t, name, plugintest.NodeName("s", 5))
	}
	tolerant := plugintest.Pod("web", 0)
	tolerant.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
	_, names = sampled(t, tolerant, 40, tainted)
	assert.Len(t, names, 4)
}

// The other plugins choose from the whole sample for pods that have preferences.
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
			pod := plugintest.Pod("web", 0)
			change(pod)
			_, names := sampled(t, pod, 40)
			assert.Len(t, names, 16)
		})
	}
}

func TestWithoutARankTheWholeSampleGoesOn(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f, _ := sampled(t, pod, 40)
	f.plugin.sampler = nodesample.NewSampler(f.plugin.Ledger, 16, config.RankSampleByOff, nodesample.SpreadWeight, "")
	assert.Len(t, f.sampleFor(t, pod), 16)
}

// Every node has its turn: none is left out for good.
func TestTheSampleGoesRound(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	pod.Labels[v1alpha1.ResourceLimitLabel] = "small" // so that the whole sample is seen
	f, seen := sampled(t, pod, 40)
	for range 4 {
		seen = seen.Union(f.sampleFor(t, pod))
	}
	assert.Len(t, seen, 40)
}

func keyOf(app string) governing.GroupKey { return groupOf(plugintest.Pod(app, 0)) }

// groupOf is the group of a pod with a controller.
func groupOf(pod *corev1.Pod) governing.GroupKey {
	return governing.GroupKey{Namespace: pod.Namespace, ID: string(metav1.GetControllerOfNoCopy(pod).UID)}
}

// roomy is a cluster of 40 nodes of which one has more capacity than the others.
func roomy(i int, n *corev1.Node) {
	if i == 7 {
		n.Status.Allocatable[corev1.ResourceCPU], n.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("1000"), resource.MustParse("1000Gi")
	}
}

func TestTheBestNodeIsInEverySampleOnceItWasMet(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	pod.Labels[v1alpha1.ResourceLimitLabel] = "small" // so that the whole sample is seen
	f, names := sampled(t, pod, 40, roomy)
	require.True(t, names.Has(plugintest.NodeName("s", 7)))
	for range 5 {
		names = f.sampleFor(t, pod)
		assert.True(t, names.Has(plugintest.NodeName("s", 7)))
		assert.Len(t, names, 16)
	}
	cordoned := plugintest.Node(plugintest.NodeName("s", 7), "spot")
	cordoned.Spec.Unschedulable = true
	f.plugin.Ledger.SetNode(cordoned)
	for range 5 {
		assert.False(t, f.sampleFor(t, pod).Has(plugintest.NodeName("s", 7)), "it takes no pods any more")
	}
}

// A node that seems best and that another plugin refuses must not end every sample.
func TestFinalistsThatWereRejectedAreNotCached(t *testing.T) {
	pod := plugintest.Pod("web", 0)
	f, names := sampled(t, pod, 40, roomy)
	require.True(t, names.Has(plugintest.NodeName("s", 7)))
	state := framework.NewCycleState()
	result, _ := f.plugin.PreFilter(f.ctx, state, pod, f.infos)
	require.True(t, result.NodeNames.Has(plugintest.NodeName("s", 7)))
	_, _ = f.plugin.PostFilter(f.ctx, state, pod, framework.NewDefaultNodeToStatus())
	other, samples := plugintest.Pod("web", 1), 0
	for range 6 { // its turn comes once in two or three samples
		if f.sampleFor(t, other).Has(plugintest.NodeName("s", 7)) {
			samples++
		}
	}
	assert.LessOrEqual(t, samples, 3, "it is in a sample only when it has its turn")
}

func TestPodsWithExtendedResourcesAreTriedOnAllNodes(t *testing.T) {
	for name, narrowed := range map[corev1.ResourceName]bool{
		corev1.ResourceEphemeralStorage: true, "nvidia.com/gpu": false, "hugepages-2Mi": false,
	} {
		pod := plugintest.Pod("web", 0)
		pod.Spec.Containers[0].Resources.Requests[name] = resource.MustParse("1")
		_, names := sampled(t, pod, 40)
		assert.Equal(t, narrowed, names != nil, name)
		pod = plugintest.Pod("web", 0)
		pod.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse("1")}}}}
		_, names = sampled(t, pod, 40)
		assert.Equal(t, narrowed, names != nil, "%s of an init container", name)
	}
}

// packing is a policy that prefers nodes that are used most.
type packing struct{}

func (p packing) Clone() fwk.StateData { return p }
func (packing) Packs() bool            { return true }

// The finalists of a pod are those that its policy would choose from: the node with the most free capacity is the best one
// without a policy, and the worst one for a policy that packs.
func TestAPolicyThatPacksGetsTheNodesThatAreUsedMost(t *testing.T) {
	best, pod := plugintest.NodeName("s", 7), plugintest.Pod("web", 0)
	f, names := sampled(t, pod, 40, roomy)
	require.True(t, names.Has(best))
	for range 6 {
		state := framework.NewCycleState()
		state.Write(cyclestate.PolicyKey, packing{})
		result, status := f.plugin.PreFilter(f.ctx, state, pod, f.infos)
		require.True(t, status.IsSuccess(), status.Message())
		assert.NotEmpty(t, result.NodeNames)
		assert.False(t, result.NodeNames.Has(best))
	}
	assert.True(t, f.sampleFor(t, pod).Has(best), "without the policy the pod has samples of another kind")
}
