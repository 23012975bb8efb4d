// SPDX-License-Identifier: Apache-2.0

package builders

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/apis/v1alpha1"
)

// IsOf reports whether an object carries the labels of an app.
func IsOf(o metav1.Object, app string) bool {
	want := Labels(app)
	have := maps.Clone(o.GetLabels())
	maps.DeleteFunc(have, func(k, _ string) bool { _, wanted := want[k]; return !wanted })
	return maps.Equal(want, have)
}

// OnNodesWith ties a template's pods to nodes with a label, by nodeSelector.
func OnNodesWith(key, value string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		if t.Spec.NodeSelector == nil {
			t.Spec.NodeSelector = map[string]string{}
		}
		t.Spec.NodeSelector[key] = value
	}
}

// OnNode ties a template's pods to one node, which says nothing about its type.
func OnNode(name string) func(*corev1.PodTemplateSpec) {
	return OnNodesWith(corev1.LabelHostname, name)
}

// RequireNodeLabel ties a template's pods to nodes by required node affinity.
func RequireNodeLabel(key string, operator corev1.NodeSelectorOperator, values ...string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
		t.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
		}}
	}
}

// PreferNodeLabel makes a template's pods prefer nodes with a label, as much as can be.
func PreferNodeLabel(key, value string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: key, Operator: corev1.NodeSelectorOpIn,
			Values: []string{value},
		}}}
		t.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: term}},
		}}
	}
}

// TolerateAll makes a template's pods tolerate every taint.
func TolerateAll(t *corev1.PodTemplateSpec) {
	t.Spec.Tolerations = append(t.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
}

// PriorityClass sets the priority class of a template's pods.
func PriorityClass(name string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { t.Spec.PriorityClassName = name }
}

// Gated gives a template's pods the scheduling gate of Berth.
func Gated(t *corev1.PodTemplateSpec) {
	t.Spec.SchedulingGates = append(t.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: v1alpha1.CapacityMixGate})
}

// ByDefault has a template's pods placed by the scheduler of those that name none.
func ByDefault(t *corev1.PodTemplateSpec) { t.Spec.SchedulerName = corev1.DefaultSchedulerName }

// WhenSpotUnavailable sets what a mix does where spot has no free capacity.
func WhenSpotUnavailable(do v1alpha1.WhenSpotUnavailable, waitSeconds int32) func(*v1alpha1.CapacityMix) {
	return func(m *v1alpha1.CapacityMix) {
		m.Spec.WhenSpotUnavailable, m.Spec.SpotWaitSeconds = do, &waitSeconds
	}
}

// WhenOnDemandUnavailable sets what a mix does where on-demand has no free capacity.
func WhenOnDemandUnavailable(do v1alpha1.WhenOnDemandUnavailable) func(*v1alpha1.CapacityMix) {
	return func(m *v1alpha1.CapacityMix) { m.Spec.WhenOnDemandUnavailable = do }
}

// DaemonSet makes a DaemonSet of an app.
func DaemonSet(app string, template ...func(*corev1.PodTemplateSpec)) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: app, Annotations: map[string]string{}},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: Labels(app)},
			Template: PodTemplate(app, template...),
		},
	}
}

// PodDisruptionBudget selects an app's pods.
func PodDisruptionBudget(app string, changes ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: Labels(app)}},
	}
	for _, change := range changes {
		change(b)
	}
	return b
}

// MinAvailable is a number or a percentage of pods.
func MinAvailable(value string) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.MinAvailable = new(intstr.Parse(value)) }
}

// MaxUnavailable is a number or a percentage of pods.
func MaxUnavailable(value string) func(*policyv1.PodDisruptionBudget) {
	return func(b *policyv1.PodDisruptionBudget) { b.Spec.MaxUnavailable = new(intstr.Parse(value)) }
}

// Rebalance changes how a mix is moved back.
func Rebalance(change func(*v1alpha1.RebalanceSpec)) func(*v1alpha1.CapacityMix) {
	return func(m *v1alpha1.CapacityMix) {
		if m.Spec.Rebalance == nil {
			m.Spec.Rebalance = &v1alpha1.RebalanceSpec{}
		}
		change(m.Spec.Rebalance)
	}
}

// RebalanceMode sets what is done about replicas on the wrong type.
func RebalanceMode(mode v1alpha1.RebalanceMode) func(*v1alpha1.CapacityMix) {
	return Rebalance(func(r *v1alpha1.RebalanceSpec) { r.Mode = mode })
}

// RebalanceWindow sets the one window in which replicas may be moved, a minute long.
func RebalanceWindow(schedule string) func(*v1alpha1.CapacityMix) {
	return Rebalance(func(r *v1alpha1.RebalanceSpec) {
		r.Windows = []v1alpha1.RebalanceWindow{{Schedule: schedule, DurationSeconds: 60}}
	})
}

// AwayFrom keeps a template's pods off the nodes that run pods of an app.
func AwayFrom(app string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: Labels(app)}, TopologyKey: corev1.LabelHostname,
			}},
		}}
	}
}

// EmptyDir gives a template's pods a directory on their node.
func EmptyDir(name string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Volumes = append(t.Spec.Volumes,
			corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
}
