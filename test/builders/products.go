// SPDX-License-Identifier: Apache-2.0

package builders

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// ResourceLimit makes a size that has nothing but its name.
func ResourceLimit(name string, changes ...func(*v1alpha1.ResourceLimitSpec)) *v1alpha1.ResourceLimit {
	l := &v1alpha1.ResourceLimit{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ResourceLimit"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	for _, change := range changes {
		change(&l.Spec)
	}
	return l
}

// SizeCPU sets what a pod of a size requests, and the most that it may.
func SizeCPU(request, most string) func(*v1alpha1.ResourceLimitSpec) {
	return func(s *v1alpha1.ResourceLimitSpec) {
		s.CPU, s.CPULimit = new(resource.MustParse(request)), new(resource.MustParse(most))
	}
}

// SizeOnNodesWith ties pods of a size to nodes with a label, by nodeSelector.
func SizeOnNodesWith(key, value string) func(*v1alpha1.ResourceLimitSpec) {
	return func(s *v1alpha1.ResourceLimitSpec) { s.NodeSelector = map[string]string{key: value} }
}

// SizeRequires ties pods of a size to nodes by required node affinity.
func SizeRequires(key string, operator v1alpha1.NodeOperator, values ...string) func(*v1alpha1.ResourceLimitSpec) {
	return func(s *v1alpha1.ResourceLimitSpec) {
		s.NodeAffinity = &v1alpha1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1alpha1.NodeTerms{
			NodeSelectorTerms: []v1alpha1.NodeTerm{{MatchExpressions: []v1alpha1.NodeRequirement{{
				Key: key, Operator: operator,
				Values: values,
			}}}},
		}}
	}
}

// SizePrefers makes pods of a size prefer nodes with a label, as much as can be.
func SizePrefers(key, value string) func(*v1alpha1.ResourceLimitSpec) {
	return func(s *v1alpha1.ResourceLimitSpec) {
		s.NodeAffinity = &v1alpha1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1alpha1.PreferredNodeTerm{{
			Weight: 100, Preference: v1alpha1.NodeTerm{MatchExpressions: []v1alpha1.NodeRequirement{{
				Key: key, Operator: v1alpha1.NodeOpIn,
				Values: []string{value},
			}}},
		}}}
	}
}

// SizeSelects makes the pods of an app have a size without naming it.
func SizeSelects(app string) func(*v1alpha1.ResourceLimitSpec) {
	return func(s *v1alpha1.ResourceLimitSpec) { s.Selector = &v1alpha1.PodSelector{MatchLabels: Labels(app)} }
}

// OfSize gives a template's pods a size, by the label.
func OfSize(name string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { t.Labels[v1alpha1.ResourceLimitLabel] = name }
}

// SchedulingPolicy makes a policy for all pods of a namespace, with the defaults of a policy.
func SchedulingPolicy(name string, changes ...func(*v1alpha1.SchedulingPolicySpec)) *v1alpha1.SchedulingPolicy {
	p := &v1alpha1.SchedulingPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "SchedulingPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	for _, change := range changes {
		change(&p.Spec)
	}
	return p
}

// Reservation makes a Reservation of CPU for the pods of an app.
func Reservation(name, app, cpu string, changes ...func(*v1alpha1.ReservationSpec)) *v1alpha1.Reservation {
	r := &v1alpha1.Reservation{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Reservation"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.ReservationSpec{
			PodSelector: &v1alpha1.PodSelector{MatchLabels: Labels(app)}, CPU: new(resource.MustParse(cpu)),
		},
	}
	for _, change := range changes {
		change(&r.Spec)
	}
	return r
}

// DeploymentRecord makes a record with functions, and without an ODGM.
func DeploymentRecord(name string, functions ...string) *v1alpha1.DeploymentRecord {
	r := &v1alpha1.DeploymentRecord{ObjectMeta: metav1.ObjectMeta{Name: name}}
	r.Spec.Addons = &[]v1alpha1.Addon{}
	unit := &r.Spec.DeploymentUnit
	unit.ClassKey = "shop.Cart"
	for _, f := range functions {
		unit.Functions = append(unit.Functions, v1alpha1.FunctionSpec{FunctionKey: f, Image: FunctionImage})
	}
	return r
}

// FunctionImage is that of the functions of records.
const FunctionImage = "registry.example/function:1"

// Environment makes an environment with every kind of component.
func Environment(name string) *v1alpha1.Environment {
	return &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.EnvironmentSpec{Stack: v1alpha1.ApplicationStack{
		Name: "shop", Version: "1",
		Database: &v1alpha1.DatabaseComponent{
			DatabaseName: "shop", Username: "shop", Container: EnvironmentContainer("postgres:17", 5432),
		},
		Backend:            &v1alpha1.BackendComponent{Container: EnvironmentContainer("node:22", 3000)},
		Frontend:           &v1alpha1.FrontendComponent{Container: EnvironmentContainer("nginx:1.29", 80)},
		AdditionalServices: []v1alpha1.AdditionalService{{Name: "redis-cache", Container: EnvironmentContainer("redis:8", 6379)}},
	}}}
}

// EnvironmentContainer makes the container of a component, which serves on a port.
func EnvironmentContainer(image string, port int32) v1alpha1.EnvironmentContainer {
	return v1alpha1.EnvironmentContainer{
		Image: image, Ports: []v1alpha1.EnvironmentPort{{ContainerPort: port}}, RestartPolicy: v1alpha1.RestartUnlessStopped,
		Resources: &v1alpha1.EnvironmentResources{CPU: "100m", Memory: "64Mi"},
	}
}

// SchedulingDecision makes the record of an attempt that bound a pod, which expires at a time.
func SchedulingDecision(pod string, expires time.Time) *v1alpha1.SchedulingDecision {
	d := &v1alpha1.SchedulingDecision{
		TypeMeta:       metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "SchedulingDecision"},
		ObjectMeta:     metav1.ObjectMeta{Name: pod},
		ExpirationTime: new(metav1.NewTime(expires)),
	}
	d.Attempt = v1alpha1.SchedulingAttempt{ID: "1", Time: metav1.NowMicro(), Outcome: v1alpha1.AttemptBound}
	return d
}
