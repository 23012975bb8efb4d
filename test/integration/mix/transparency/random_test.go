// SPDX-License-Identifier: Apache-2.0

package transparency_test

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
)

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
