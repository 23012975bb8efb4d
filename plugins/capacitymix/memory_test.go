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
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/apis/v1alpha1"
)

func TestTheMemoryKeepsTheBestThatWereNotRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &memory{}
		by := rapid.SampledFrom([]config.RankSampleBy{config.RankSampleByLeastAllocated, config.RankSampleByMostAllocated}).Draw(t, "by")
		n := rapid.IntRange(1, 20).Draw(t, "n")
		refused := sets.New[string]()
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			all := make([]candidate, rapid.IntRange(0, 60).Draw(t, "candidates"))
			for i := range all {
				all[i] = candidate{name: fmt.Sprint("node-", i), free: rapid.Int64Range(0, 30).Draw(t, "free")}
			}
			m.keep(all, n, by)

			allowed := slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return refused.Has(c.name) })
			require.Len(t, m.best, min(n, len(allowed)))
			require.Equal(t, len(m.best), sets.New(m.best...).Len())
			require.False(t, refused.HasAny(m.best...))
			worst := func(in func(candidate) bool, sign int64) (least int64) {
				least = 1 << 40
				for _, c := range allowed {
					if in(c) {
						least = min(least, sign*c.free)
					}
				}
				return least
			}
			sign := int64(1)
			if by == config.RankSampleByMostAllocated {
				sign = -1
			}
			kept := func(c candidate) bool { return slices.Contains(m.best, c.name) }
			for _, c := range allowed {
				require.True(t, kept(c) || sign*c.free <= worst(kept, sign), "%s with %d was not kept", c.name, c.free)
			}

			again := sets.New(m.best[:rapid.IntRange(0, len(m.best)).Draw(t, "refused")]...)
			if refused.Union(again).Len() <= len(m.refused) { // as many are kept
				m.refuse(again)
				refused = refused.Union(again)
				require.False(t, refused.HasAny(m.best...), "at once")
			}
		}
	})
}

func TestOldRefusalsMakeRoomForNewOnes(t *testing.T) {
	m := &memory{}
	all := make([]candidate, 100)
	for i := range all {
		all[i].name = fmt.Sprint(i)
		m.refuse(sets.New(all[i].name))
		m.refuse(sets.New(all[i].name)) // counts once
	}
	m.keep(all, 100, config.RankSampleByLeastAllocated)
	assert.Len(t, m.best, 36)
	assert.Contains(t, m.best, "35")
	assert.NotContains(t, m.best, "36")
}

// roomy is a cluster of 40 nodes of which one has more room than the others.
func roomy(i int, n *corev1.Node) {
	if i == 7 {
		n.Status.Allocatable[corev1.ResourceCPU], n.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("1000"), resource.MustParse("1000Gi")
	}
}

func TestTheBestNodeIsInEverySampleOnceItWasMet(t *testing.T) {
	pod := testPod("web", 0)
	pod.Labels[v1alpha1.ResourceLimitLabel] = "small" // so that the whole sample is seen
	f, names := sampled(t, pod, 40, roomy)
	require.True(t, names.Has(nodeName("s", 7)))
	for range 5 {
		names = f.sampleFor(t, pod)
		assert.True(t, names.Has(nodeName("s", 7)))
		assert.Len(t, names, 16)
	}
	cordoned := testNode(nodeName("s", 7), "spot")
	cordoned.Spec.Unschedulable = true
	f.plugin.ledger.SetNode(cordoned)
	for range 5 {
		assert.False(t, f.sampleFor(t, pod).Has(nodeName("s", 7)), "it takes no pods any more")
	}
}

// A node that seems best and that another plugin refuses must not end every sample.
func TestFinalistsThatWereRefusedAreForgotten(t *testing.T) {
	pod := testPod("web", 0)
	f, names := sampled(t, pod, 40, roomy)
	require.True(t, names.Has(nodeName("s", 7)))
	state := framework.NewCycleState()
	result, _ := f.plugin.PreFilter(f.ctx, state, pod, f.infos)
	require.True(t, result.NodeNames.Has(nodeName("s", 7)))
	_, _ = f.plugin.PostFilter(f.ctx, state, pod, framework.NewDefaultNodeToStatus())
	assert.NotContains(t, f.plugin.known[cycleOf(state).wants].best, nodeName("s", 7))
	other := testPod("web", 1)
	for range 2 { // its turn comes once in two or three samples
		f.sampleFor(t, other)
	}
	assert.NotContains(t, f.plugin.known[cycleOf(state).wants].best, nodeName("s", 7))
}

func TestPodsWithExtendedResourcesAreTriedOnAllNodes(t *testing.T) {
	for name, narrowed := range map[corev1.ResourceName]bool{
		corev1.ResourceEphemeralStorage: true, "nvidia.com/gpu": false, "hugepages-2Mi": false,
	} {
		pod := testPod("web", 0)
		pod.Spec.Containers[0].Resources.Requests[name] = resource.MustParse("1")
		_, names := sampled(t, pod, 40)
		assert.Equal(t, narrowed, names != nil, name)
		pod = testPod("web", 0)
		pod.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse("1")}}}}
		_, names = sampled(t, pod, 40)
		assert.Equal(t, narrowed, names != nil, "%s of an init container", name)
	}
}
