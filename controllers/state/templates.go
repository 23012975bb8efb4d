// SPDX-License-Identifier: Apache-2.0

package state

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Templates receives the pod templates of workloads, beside the cluster state: those of
// Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs. The
// source names the kind, as its plural. What is passed must not be kept.
type Templates interface {
	// SetTemplate reports whether anything of the template is kept.
	SetTemplate(source string, owner metav1.Object, template *corev1.PodTemplateSpec) bool
	DeleteTemplate(source string, owner types.UID)
	// RetainTemplates forgets those of a source that were not listed.
	RetainTemplates(source string, listed map[types.UID]bool)
}

// WithTemplates passes pod templates to a receiver. What is watched for the cluster state
// is not watched twice.
func WithTemplates(t Templates) func(*Informers) {
	return func(f *Informers) {
		for i := range f.sources {
			if s := &f.sources[i]; templateOf(s.object) != nil {
				s.tell(t)
			}
		}
		apps, batch := f.kube.AppsV1().RESTClient(), f.kube.BatchV1().RESTClient()
		for _, s := range []source{
			{name: "daemonsets", client: apps, object: &appsv1.DaemonSet{}, list: &appsv1.DaemonSetList{}},
			{name: "cronjobs", client: batch, object: &batchv1.CronJob{}, list: &batchv1.CronJobList{}},
		} {
			// The cluster state has no use for them.
			s.keep = func(runtime.Object) runtime.Object { return nil }
			s.store = &store{set: func(any) {}, remove: func(metav1.Object) {}, replace: func([]any) {}}
			s.tell(t)
			f.sources = append(f.sources, s)
		}
	}
}

// templateOf returns the pod template of a workload, nil for what is none.
func templateOf(o any) *corev1.PodTemplateSpec {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.ReplicaSet:
		return &o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *appsv1.DaemonSet:
		return &o.Spec.Template
	case *batchv1.Job:
		return &o.Spec.Template
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template
	}
	return nil
}

// tell passes templates on before the objects are stripped: those of a list when
// its page is read, since what comes out of it has no template any more.
func (s *source) tell(t Templates) {
	name, keep := s.name, s.keep
	listed := map[types.UID]bool{}
	s.begin = func() { listed = map[types.UID]bool{} } // a list that failed half-way does not count
	s.keep = func(o runtime.Object) runtime.Object {
		if w := o.(metav1.Object); t.SetTemplate(name, w, templateOf(o)) {
			listed[w.GetUID()] = true
		}
		return keep(o)
	}
	set, remove, replace := s.store.set, s.store.remove, s.store.replace
	s.store.set = func(o any) {
		t.SetTemplate(name, o.(metav1.Object), templateOf(o))
		set(o)
	}
	s.store.remove = func(o metav1.Object) {
		t.DeleteTemplate(name, o.GetUID())
		remove(o)
	}
	s.store.replace = func(all []any) {
		t.RetainTemplates(name, listed)
		replace(all)
	}
}
