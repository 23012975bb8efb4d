// SPDX-License-Identifier: Apache-2.0

package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

// zoneWeight is the weight of a preferred zone, nodeWeight that against each replica on the same node.
const zoneWeight, nodeWeight = 100, 1

// colocate adds the preferences of a component for a zone. All are preferences: where the zone has no capacity, an environment that is
// spread is better than one that does not run.
func (in *Input) colocate(c *stack.Component, pod *corev1.PodSpec) {
	p := in.Environment.Spec.Placement
	if p == nil {
		return
	}
	sameZone := p.Colocation == v1alpha1.ColocationSameZone
	follows := sameZone && !c.IsDatabase()
	hasDatabase := in.Environment.Spec.Stack.Database != nil
	affinity := &corev1.Affinity{}
	if p.PreferredZone != "" && (!follows || !hasDatabase) { // those who follow the database also follow its volume elsewhere
		affinity.NodeAffinity = &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: zoneWeight, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{p.PreferredZone},
			}}},
		}}}
	}
	if follows {
		leader := in.selects(stack.Database)
		if !hasDatabase {
			leader = map[string]string{v1alpha1.EnvironmentLabel: in.Environment.Name}
		}
		affinity.PodAffinity = &corev1.PodAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: prefers(zoneWeight, corev1.LabelTopologyZone, leader),
		}
		// The scheduler adds up both: the zone outweighs some dozens of replicas on the same node.
		affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: prefers(nodeWeight, corev1.LabelHostname, in.selects(c.Name)),
		}
	}
	if affinity.NodeAffinity != nil || affinity.PodAffinity != nil {
		pod.Affinity = affinity
	}
	if sameZone {
		// Without a selector it counts no pods. It replaces the default constraints of the scheduler, which spread replicas over zones and
		// are worth as much as all affinities together.
		pod.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		}}
	}
}

// prefers is a preference for, or against, nodes where pods run, or the zone of these.
func prefers(weight int32, topologyKey string, pods map[string]string) []corev1.WeightedPodAffinityTerm {
	return []corev1.WeightedPodAffinityTerm{{Weight: weight, PodAffinityTerm: corev1.PodAffinityTerm{
		TopologyKey: topologyKey, LabelSelector: &metav1.LabelSelector{MatchLabels: pods},
	}}}
}
