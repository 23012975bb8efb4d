// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/limits/registry"
)

const withDefaultNamespace = `
profiles:
- schedulerName: berth-scheduler
  plugins: {multiPoint: {enabled: [{name: CapacityMix}, {name: ResourceLimit}]}}
  pluginConfig: [{name: ResourceLimit, args: {defaultNamespace: sizes}}]
- schedulerName: plain
  plugins: {multiPoint: {enabled: [{name: CapacityMix}]}}
`

func limit(namespace, name string, change func(*v1alpha1.ResourceLimitSpec)) *v1alpha1.ResourceLimit {
	l := &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1}}
	change(&l.Spec)
	return l
}

func sizedPod(name string) *corev1.Pod {
	return pod("a", "n2", func(p *corev1.Pod) { p.Labels[v1alpha1.ResourceLimitLabel] = name })
}

func TestAReplacementIsBoundByItsResourceLimit(t *testing.T) {
	p := profileOf(t, withDefaultNamespace)
	require.True(t, p.readsLimits())
	require.Empty(t, p.Skipped)
	s := snapshot(t, p, []*corev1.Node{node("n1", "8", inZone("a")), node("n2", "8", inZone("b")), node("n3", "8", inZone("b"))}, nil)
	half := resource.MustParse("500m")
	s.limits = registry.NewRegistries([]*v1alpha1.ResourceLimit{
		limit("sizes", "zonal", func(spec *v1alpha1.ResourceLimitSpec) {
			spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "b"}
		}),
		limit("ns", "nowhere", func(spec *v1alpha1.ResourceLimitSpec) {
			spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "c"}
		}),
		limit("ns", "small", func(spec *v1alpha1.ResourceLimitSpec) { spec.CPU = &half }),
	})

	assert.Equal(t, "n1", ask(t, s, Question{Pod: pod("a", "")}).Node, "a pod without a size")
	assert.Equal(t, "n2", ask(t, s, Question{Pod: sizedPod("zonal")}).Node, "of the default namespace")
	for name, want := range map[string]string{
		"nowhere": `3 node(s) didn't match the node rules of ResourceLimit "ns/nowhere".`,
		"small":   `pod is above ResourceLimit "ns/small": cpu request 1 is above 500m.`,
		"gone":    `ResourceLimit "ns/gone" does not exist.`,
	} {
		assert.Equal(t, "0/3 nodes are available: "+want, ask(t, s, Question{Pod: sizedPod(name)}).Message())
	}

	elsewhere := sizedPod("gone")
	elsewhere.Spec.SchedulerName = "plain"
	assert.True(t, ask(t, s, Question{Pod: elsewhere}).Fits, "a profile without the plugin ignores it")
}
