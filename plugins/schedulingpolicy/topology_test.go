// SPDX-License-Identifier: Apache-2.0

package schedulingpolicy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// spread is a constraint on the pods of app web by zone.
func spread(changes ...func(*corev1.TopologySpreadConstraint)) func(*corev1.Pod) {
	c := corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}
	for _, change := range changes {
		change(&c)
	}
	return func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c) }
}

// inZones may run in some zones only.
func inZones(zones ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: zones,
				}},
			}}},
		}}
	}
}

// The evenness of a node is that of the pod's soft constraints, by the pods that the scheduler's own plugin counts.
func TestTheEvennessOfConstraints(t *testing.T) {
	t.Parallel()
	f := newFixture(t, noArgs(), fleetOf(3)...)
	f.set(policy(functions(v1alpha1.ScoreTopologySpread)))
	// evenness of n00, n01 and n02 with so many pods on each, of app web unless changed.
	evenness := func(x *corev1.Pod, on [3]int, changes ...func(*corev1.Pod)) (values [3]float64) {
		var running []*corev1.Pod
		for i, n := range on {
			for range n {
				p := pod(fmt.Sprint("r", len(running)), fmt.Sprintf("n%02d", i), func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })
				for _, change := range changes {
					change(p)
				}
				running = append(running, p)
			}
		}
		f.snapshot(running...)
		state, _ := f.run(t, x, f.infos(t))
		table := read(state).table
		for i := range table.candidates {
			var at int
			_, err := fmt.Sscanf(table.candidates[i].Node, "n%02d", &at)
			assert.NoError(t, err)
			values[at] = table.facts[i].Constraint
		}
		return values
	}
	soft := pod("x", "", spread())
	uneven := evenness(soft, [3]int{3, 1, 0})
	assert.Less(t, uneven[0], uneven[1])
	assert.Less(t, uneven[1], uneven[2])

	none := [3]int{}
	assert.Equal(t, evenness(soft, none), evenness(soft, [3]int{3, 1, 0}, func(p *corev1.Pod) { p.Namespace = "other" }), "other namespaces")
	assert.Equal(t, evenness(soft, none), evenness(soft, [3]int{3, 1, 0}, func(p *corev1.Pod) { p.Labels = nil }), "other pods")
	assert.Equal(t, evenness(soft, none), evenness(soft, [3]int{3, 1, 0}, func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }),
		"pods that are being deleted")

	hard := func(c *corev1.TopologySpreadConstraint) {
		c.WhenUnsatisfiable, c.LabelSelector = corev1.DoNotSchedule, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}
	}
	assert.Equal(t, uneven, evenness(pod("x", "", spread(), spread(hard)), [3]int{3, 1, 0}), "hard constraints are those of a filter")

	limited := pod("x", "", spread(), inZones("zone-0", "zone-1"))
	ignoring := pod("x", "", inZones("zone-0", "zone-1"), spread(func(c *corev1.TopologySpreadConstraint) {
		c.NodeAffinityPolicy = new(corev1.NodeInclusionPolicyIgnore)
	}))
	without, with := evenness(limited, [3]int{3, 1, 0}), evenness(limited, [3]int{3, 1, 9})
	assert.Equal(t, without[:2], with[:2], "nodes that the pod may not run on")
	ignored := evenness(ignoring, [3]int{3, 1, 9})
	assert.NotEqual(t, without[:2], ignored[:2], "unless the constraint ignores the node affinity")
}
