// SPDX-License-Identifier: Apache-2.0

// Package builders makes the objects that Berth's tests and demo create. Each
// takes changes, so a test names only what matters to it.
package builders

import (
	"runtime"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
)

// Scheduler is the schedulerName that the pods request.
const Scheduler = "berth-scheduler"

// Labels are the labels of a workload's pods, and its selector.
func Labels(app string) map[string]string { return map[string]string{"app": app} }

// CapacityMix makes a mix that selects the pods of an app.
func CapacityMix(app string, spotPercent, minOnDemand int32, changes ...func(*v1alpha1.CapacityMix)) *v1alpha1.CapacityMix {
	m := &v1alpha1.CapacityMix{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "CapacityMix"},
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec:       v1alpha1.CapacityMixSpec{SpotPercent: spotPercent, MinOnDemand: minOnDemand},
	}
	m.Spec.Selector.MatchLabels = Labels(app)
	for _, change := range changes {
		change(m)
	}
	return m
}

// PodTemplate makes the template of a workload's pods: one container that asks
// for 100m CPU and 64Mi.
func PodTemplate(app string, changes ...func(*corev1.PodTemplateSpec)) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: Labels(app), Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			SchedulerName:                 Scheduler,
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers: []corev1.Container{{
				Name: "main", Image: "example.com/app:1",
				Resources: corev1.ResourceRequirements{Requests: Requests("100m", "64Mi")},
			}},
		},
	}
	for _, change := range changes {
		change(&t)
	}
	return t
}

// Requests is a resource list of CPU and memory.
func Requests(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory),
	}
}

// CPU sets the CPU request of a template's container.
func CPU(quantity string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(quantity)
	}
}

// PodAnnotation sets an annotation of a template's pods.
func PodAnnotation(key, value string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { t.Annotations[key] = value }
}

// SchedulerName sets the scheduler that a template's pods request.
func SchedulerName(name string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) { t.Spec.SchedulerName = name }
}

// MixAnnotations are the annotations that give a workload its mix without a CapacityMix.
func MixAnnotations(spotPercent, minOnDemand int) map[string]string {
	return map[string]string{
		v1alpha1.SpotPercentAnnotation: strconv.Itoa(spotPercent),
		v1alpha1.MinOnDemandAnnotation: strconv.Itoa(minOnDemand),
	}
}

// Deployment makes a Deployment of an app.
func Deployment(app string, replicas int32, template ...func(*corev1.PodTemplateSpec)) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app, Annotations: map[string]string{}},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(replicas),
			Selector: &metav1.LabelSelector{MatchLabels: Labels(app)},
			Template: PodTemplate(app, template...),
		},
	}
}

// ReplicaSet makes a ReplicaSet of an app that belongs to no Deployment.
func ReplicaSet(app string, replicas int32, template ...func(*corev1.PodTemplateSpec)) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: app, Annotations: map[string]string{}},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(replicas), Selector: &metav1.LabelSelector{MatchLabels: Labels(app)}, Template: PodTemplate(app, template...),
		},
	}
}

// StatefulSet makes a StatefulSet of an app.
func StatefulSet(app string, replicas int32, policy appsv1.PodManagementPolicyType,
	template ...func(*corev1.PodTemplateSpec),
) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: app, Annotations: map[string]string{}},
		Spec: appsv1.StatefulSetSpec{
			Replicas:            new(replicas),
			ServiceName:         app,
			PodManagementPolicy: policy,
			Selector:            &metav1.LabelSelector{MatchLabels: Labels(app)},
			Template:            PodTemplate(app, template...),
		},
	}
}

// Job makes a Job of an app whose pods all run at once.
func Job(app string, pods int32, mode batchv1.CompletionMode, template ...func(*corev1.PodTemplateSpec)) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: app, Annotations: map[string]string{}},
		Spec: batchv1.JobSpec{
			Parallelism: new(pods), Completions: new(pods), CompletionMode: new(mode),
			Template: PodTemplate(app, template...),
		},
	}
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return j
}

// Pod makes a bare pod of an app.
func Pod(app, name string, template ...func(*corev1.PodTemplateSpec)) *corev1.Pod {
	t := PodTemplate(app, template...)
	t.Name = name
	return &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
}

// Heap returns the bytes that are live, for what something takes to be measured.
func Heap() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TerminatesFor makes a template's pods stay Terminating for a time.
func TerminatesFor(d time.Duration) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Annotations[cluster.PodDeleteDelay] = d.String()
		t.Spec.TerminationGracePeriodSeconds = new(int64(d.Seconds()) + 1)
	}
}

// ReadyAfter makes a template's pods Ready a time after they started.
func ReadyAfter(d time.Duration) func(*corev1.PodTemplateSpec) {
	return PodAnnotation(cluster.PodReadyDelay, d.String())
}

// SucceedsAfter makes a template's pods succeed a time after they became Ready.
func SucceedsAfter(d time.Duration) func(*corev1.PodTemplateSpec) {
	return PodAnnotation(cluster.PodCompleteDelay, d.String())
}

// OwnedBy makes an object the controller of a template's pods.
func OwnedBy(owner metav1.OwnerReference) func(*corev1.PodTemplateSpec) {
	owner.Controller = new(true)
	return func(t *corev1.PodTemplateSpec) { t.OwnerReferences = []metav1.OwnerReference{owner} }
}
