// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configuration "berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
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
	// Apply changes the pod template of a workload with a mix. It is nil for no change.
	Apply func(template *corev1.PodTemplateSpec)
	// Admit returns the capacity type that a webhook gives to one more pod, Unknown for any. It is nil for no webhook.
	Admit func(m split.Mix, active split.Count, open func(capacity.Type) bool) capacity.Type
	// Sizes returns how many replicas of each type a workload has. It is nil where a workload is one Deployment.
	Sizes func(m split.Mix, wanted, readySpot int32) (spot, onDemand int32)
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
	{
		Name: "WebhookSubsets", Admit: subsets,
		Description: "the default scheduler, and a webhook that gives each pod the capacity type that is missing, as OpenKruise's WorkloadSpread",
	},
	{
		Name: "SpotHedge", Sizes: spotHedge,
		Description: "SkyServe's rule: one spot replica more than wanted, and on-demand replicas in place of those that are not Ready",
	},
	{Name: "OnDemand", Description: "the default scheduler, on-demand nodes only for workloads with a mix", Apply: only(v1alpha1.CapacityTypeOnDemand)},
	{Name: "Spot", Description: "the default scheduler, spot nodes only for workloads with a mix", Apply: only(v1alpha1.CapacityTypeSpot)},
}

// admit changes a pod as it is created.
func (w *world) admit(of *workload, set *appsv1.ReplicaSet, pod *corev1.Pod) {
	switch {
	case of.placer != nil:
		w.place(of, pod)
	case w.policy.Admit != nil && of.mix != nil:
		w.subset(of, set, pod)
	}
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
