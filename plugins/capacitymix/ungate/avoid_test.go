// SPDX-License-Identifier: Apache-2.0

package ungate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/plugintest"
)

// quarantined has spot nodes a and b, each in a zone of its name, of which a is in quarantine, and a mix of spot alone.
func quarantined(t *testing.T, change func(*v1alpha1.CapacityMix), nodes func(a, b *corev1.Node)) *fixture {
	t.Helper()
	f := newFixture(t)
	f.mix(t, plugintest.CapacityMix("web", 100, 0, builders.AvoidInterrupted, change))
	a, b := plugintest.Node("a", "spot"), plugintest.Node("b", "spot")
	nodes(a, b)
	for _, n := range []*corev1.Node{a, b} {
		require.NoError(t, f.cluster.Informers.Core().V1().Nodes().Informer().GetIndexer().Add(n))
		f.ungater.NodeHandler().OnAdd(n, false)
	}
	f.ungater.Ledger.Quarantine(map[string]time.Time{"a/?": time.Unix(1, 0)})
	return f
}

func TestAGatedPodExcludesDomainsInQuarantine(t *testing.T) {
	same := func(*v1alpha1.CapacityMix) {}
	as := func(_, _ *corev1.Node) {}
	for name, tc := range map[string]struct {
		mix      func(*v1alpha1.CapacityMix)
		nodes    func(a, b *corev1.Node)
		pod      func(*corev1.Pod)
		excludes bool
	}{
		"by default":    {mix: func(m *v1alpha1.CapacityMix) { m.Spec.WhenDomainInterrupted = "" }},
		"DoNotSchedule": {excludes: true},
		"a pod that may not fall back: its affinity is final": {mix: func(m *v1alpha1.CapacityMix) {
			m.Spec.WhenSpotUnavailable = v1alpha1.WhenSpotUnavailableWait
		}},
		"on-demand": {mix: func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = 0 }},
		"no other domain is left": {nodes: func(_, b *corev1.Node) {
			b.Spec.Unschedulable = true
		}},
		"the other domain is not tolerated": {nodes: func(_, b *corev1.Node) {
			b.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
		}},
		"the other domain has no room for it": {nodes: func(_, b *corev1.Node) {
			b.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("1Mi")
		}, pod: func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Mi")}
		}},
		"the mix tolerates it": {nodes: func(_, b *corev1.Node) {
			b.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
		}, mix: func(m *v1alpha1.CapacityMix) {
			m.Spec.Tolerations = &v1alpha1.TolerationsByType{Spot: []v1alpha1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}}
		}, excludes: true},
		"a pod with an affinity of its own": {pod: func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpExists}},
				}}},
			}}
		}},
		"beside maxPerDomain": {mix: builders.MaxPerZone(5), excludes: true},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.mix == nil {
				tc.mix = same
			}
			if tc.nodes == nil {
				tc.nodes = as
			}
			f := quarantined(t, tc.mix, tc.nodes)
			var changes []func(*corev1.Pod)
			if tc.pod != nil {
				changes = append(changes, tc.pod)
			}
			before := f.gated(t, 0, changes...)
			pod := f.ungate(t, before)
			selects := nodeaffinity.GetRequiredNodeAffinity(pod)
			match := func(name string) bool {
				node := plugintest.Node(name, "spot")
				if pod.Spec.NodeSelector["karpenter.sh/capacity-type"] == "on-demand" {
					node.Labels["karpenter.sh/capacity-type"] = "on-demand"
				}
				is, err := selects.Match(node)
				require.NoError(t, err)
				return is
			}
			assert.Equal(t, !tc.excludes, match("a"), "%v", pod.Spec.Affinity)
			assert.True(t, match("b"), "%v", pod.Spec.Affinity)
			assert.Equal(t, tc.excludes, pod.Annotations[v1alpha1.QuarantineTermsAnnotation] != "")
			assert.Equal(t, scopeOf(before, f.ungater.label).key, scopeOf(pod, f.ungater.label).key, "it is in the circuit breaker of its siblings")
		})
	}
}
