// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configuration "berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
)

const (
	berthScheduler = "berth-scheduler"
	typeLabel      = "karpenter.sh/capacity-type"
	appLabel       = "app"
)

// Policy is a way to place the pods of a scenario.
type Policy struct {
	Name, Description string
	// Mixes is whether the mixes of the scenario are created, and their replicas are moved.
	Mixes bool
	// Configuration is that of the controller, nil for the default.
	Configuration *configuration.Configuration
	// Apply changes the pod template of a workload.
	Apply func(template *corev1.PodTemplateSpec)
	// restless is for tests: the rebalancer looks at all workloads every 30 seconds, also when nothing has changed.
	restless bool
}

// Policies are what a scenario is simulated under: Berth, and what clusters use without it.
var Policies = []Policy{
	{
		Name: "Berth", Description: "the mixes of the scenario, placed by berth-scheduler and rebalanced with the default configuration",
		Mixes: true,
		Apply: func(t *corev1.PodTemplateSpec) { t.Spec.SchedulerName = berthScheduler },
	},
	{
		Name: "TopologySpread", Description: "the default scheduler, with a topology spread constraint over the capacity type (maxSkew 1, ScheduleAnyway)",
		Apply: func(t *corev1.PodTemplateSpec) {
			t.Spec.SchedulerName = corev1.DefaultSchedulerName
			t.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: typeLabel, WhenUnsatisfiable: corev1.ScheduleAnyway,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: t.Labels[appLabel]}},
			}}
		},
	},
	{Name: "OnDemand", Description: "the default scheduler, on-demand nodes only", Apply: only(v1alpha1.CapacityTypeOnDemand)},
	{Name: "Spot", Description: "the default scheduler, spot nodes only", Apply: only(v1alpha1.CapacityTypeSpot)},
}

// only has pods run on nodes of a type.
func only(t string) func(*corev1.PodTemplateSpec) {
	return func(template *corev1.PodTemplateSpec) {
		template.Spec.SchedulerName = corev1.DefaultSchedulerName
		template.Spec.NodeSelector = map[string]string{typeLabel: t}
	}
}

// typeOf returns the capacity type of a pod's node selector, Unknown for any.
func typeOf(pod *corev1.Pod) capacity.Type {
	t, _ := capacity.ParseType(pod.Spec.NodeSelector[typeLabel]) // Unknown with an error
	return t
}
