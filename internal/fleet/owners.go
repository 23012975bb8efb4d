// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/policy"
)

// Strip returns a ReplicaSet, StatefulSet, Job or Deployment without what Berth
// does not read, or nil for a ReplicaSet of an old revision, which has no pods
// and never will without a change. The argument is not changed.
func Strip(o metav1.Object) metav1.Object {
	switch o := o.(type) {
	case *appsv1.ReplicaSet:
		if o.Spec.Replicas != nil && *o.Spec.Replicas == 0 && o.Status.Replicas == 0 {
			return nil
		}
		return &appsv1.ReplicaSet{
			ObjectMeta: stripMeta(o), Spec: appsv1.ReplicaSetSpec{Replicas: o.Spec.Replicas, Template: stripTemplate(&o.Spec.Template)},
			Status: appsv1.ReplicaSetStatus{Replicas: o.Status.Replicas},
		}
	case *appsv1.StatefulSet:
		s := &appsv1.StatefulSet{ObjectMeta: stripMeta(o), Status: *o.Status.DeepCopy()}
		s.Status.Conditions = nil
		s.Spec.Replicas, s.Spec.Ordinals, s.Spec.UpdateStrategy = o.Spec.Replicas, o.Spec.Ordinals, o.Spec.UpdateStrategy
		s.Spec.Template = stripTemplate(&o.Spec.Template)
		return s
	case *appsv1.Deployment:
		d := &appsv1.Deployment{ObjectMeta: stripMeta(o), Status: *o.Status.DeepCopy()}
		d.Spec.Replicas, d.Spec.Paused, d.Spec.ProgressDeadlineSeconds = o.Spec.Replicas, o.Spec.Paused, o.Spec.ProgressDeadlineSeconds
		d.Spec.Strategy.Type = o.Spec.Strategy.Type
		for i := range d.Status.Conditions {
			c := &d.Status.Conditions[i]
			c.Message, c.LastUpdateTime = "", metav1.Time{}
		}
		return d
	case *batchv1.Job:
		return &batchv1.Job{ObjectMeta: stripMeta(o), Spec: batchv1.JobSpec{Template: stripTemplate(&o.Spec.Template)}}
	}
	return nil
}

func stripMeta(o metav1.Object) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(), Generation: o.GetGeneration(),
		CreationTimestamp: o.GetCreationTimestamp(), DeletionTimestamp: o.GetDeletionTimestamp(),
		Annotations: keptAnnotations(o.GetAnnotations()),
	}
	if ref := metav1.GetControllerOf(o); ref != nil {
		m.OwnerReferences = []metav1.OwnerReference{*ref}
	}
	for k, v := range o.GetLabels() {
		if keepAnnotation(k) { // Spotalis switches workloads on by a label
			if m.Labels == nil {
				m.Labels = map[string]string{}
			}
			m.Labels[k] = v
		}
	}
	return m
}

func stripTemplate(t *corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{SchedulerName: t.Spec.SchedulerName}}
}

// SetOwner adds a ReplicaSet, StatefulSet, Job or Deployment, stripped or not,
// or takes over what changed.
func (f *Fleet) SetOwner(o metav1.Object) {
	kept := Strip(o)
	if kept == nil {
		f.DeleteOwner(o)
		return
	}
	f.mu.Lock()
	old := f.objects[o.GetUID()]
	same := old != nil && sameState(old, kept)
	var keys []policy.GroupKey
	if !same {
		f.file(old, kept)
		keys = f.staleBelow(kept)
	}
	f.objects[o.GetUID()] = kept
	f.mu.Unlock()
	f.changed(keys...)
}

// DeleteOwner forgets a workload controller.
func (f *Fleet) DeleteOwner(o metav1.Object) {
	f.mu.Lock()
	var keys []policy.GroupKey
	if old := f.objects[o.GetUID()]; old != nil {
		f.file(old, nil)
		keys = f.staleBelow(old)
		delete(f.objects, o.GetUID())
	}
	f.mu.Unlock()
	f.changed(keys...)
}

// file keeps the index of who controls whom; f.mu is held.
func (f *Fleet) file(before, after metav1.Object) {
	was, is := above(before), above(after)
	if was == is {
		return
	}
	if was != "" {
		if f.below[was] = without(f.below[was], before.GetUID()); len(f.below[was]) == 0 {
			delete(f.below, was)
		}
	}
	if is != "" {
		f.below[is] = append(f.below[is], after.GetUID())
	}
}

// above is the UID of a controller's own controller, "" if it has none.
func above(o metav1.Object) types.UID {
	if o == nil {
		return ""
	}
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return ref.UID
	}
	return ""
}

// Owner returns a controller that is known, nil for others. It is shared and
// must not be changed.
func (f *Fleet) Owner(uid types.UID) metav1.Object {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.objects[uid]
}

// sameState reports whether an update of a controller is none that counts.
func sameState(a, b metav1.Object) bool {
	return a.GetNamespace() == b.GetNamespace() && a.GetName() == b.GetName() && above(a) == above(b) &&
		maps.Equal(a.GetAnnotations(), b.GetAnnotations()) && maps.Equal(a.GetLabels(), b.GetLabels()) &&
		a.GetGeneration() == b.GetGeneration() && askedOf(a) == askedOf(b) && firstOrdinal(a) == firstOrdinal(b) && rolloutOf(a) == rolloutOf(b)
}

// firstOrdinal is where the ordinals of a StatefulSet begin.
func firstOrdinal(o metav1.Object) int32 {
	if s, ok := o.(*appsv1.StatefulSet); ok && s.Spec.Ordinals != nil {
		return s.Spec.Ordinals.Start
	}
	return 0
}

// controllersOf finds the controllers that the fleet knows. The lock must be held.
type controllersOf struct{ *Fleet }

// Controller implements policy.Controllers.
func (c controllersOf) Controller(namespace string, ref *metav1.OwnerReference) metav1.Object {
	return c.object(namespace, ref.UID)
}

// object returns a controller of a namespace. One of another namespace controls
// nothing there, whatever a reference says; f.mu is held.
func (f *Fleet) object(namespace string, uid types.UID) metav1.Object {
	if o := f.objects[uid]; o != nil && o.GetNamespace() == namespace {
		return o
	}
	return nil
}

// askedOf is how many replicas a controller asks for, -1 where it does not say.
func askedOf(o metav1.Object) int {
	switch o := o.(type) {
	case *appsv1.ReplicaSet:
		return replicas(o.Spec.Replicas)
	case *appsv1.StatefulSet:
		return replicas(o.Spec.Replicas)
	case *appsv1.Deployment:
		return replicas(o.Spec.Replicas)
	}
	return -1
}

// replicas defaults to 1, as the API does.
func replicas(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

// Rollout is where a workload is in the change from one revision to the next.
type Rollout struct {
	// Rolling is set while pods of more than one revision are wanted or left.
	Rolling bool
	// Stuck is set when the workload's own controller has given up on progress.
	Stuck bool
}

// rolloutOf reads the rollout of a Deployment or StatefulSet.
func rolloutOf(o metav1.Object) Rollout {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return rolloutOfDeployment(o)
	case *appsv1.StatefulSet:
		return rolloutOfStatefulSet(o)
	}
	return Rollout{}
}

func rolloutOfDeployment(o *appsv1.Deployment) Rollout {
	s := &o.Status
	r := Rollout{Rolling: s.ObservedGeneration < o.Generation || int(s.UpdatedReplicas) < replicas(o.Spec.Replicas) || s.Replicas > s.UpdatedReplicas}
	for _, c := range s.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse {
			r.Stuck = true
		}
	}
	return r
}

func rolloutOfStatefulSet(o *appsv1.StatefulSet) Rollout {
	s := &o.Status
	if s.ObservedGeneration < o.Generation {
		return Rollout{Rolling: true}
	}
	if o.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType || s.CurrentRevision == s.UpdateRevision {
		return Rollout{}
	}
	want := replicas(o.Spec.Replicas)
	if u := o.Spec.UpdateStrategy.RollingUpdate; u != nil && u.Partition != nil {
		want -= int(*u.Partition) // a partition that stays is no rollout
	}
	return Rollout{Rolling: int(s.UpdatedReplicas) < want}
}
