// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"maps"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/internal/mix/governing"
)

// Owner is what Berth reads of a ReplicaSet, StatefulSet, Job or Deployment: a
// third of what the objects take that have everything else left empty.
type Owner struct {
	metav1.ObjectMeta
	// asked is how many pods it requests that name it as their controller, -1 where it has no such field. The replicas of a
	// Deployment are those of its ReplicaSets: they count no pod whose controller it is itself, which an operator created.
	asked int
	// ended is set where it makes no more pods: it is being deleted, or a Job that finished, failed or was suspended.
	ended bool
	// toleratesEvictions is set for a Job that ignores disruptions and whose owner opted in.
	toleratesEvictions bool
	// node is the nodeName of its pod template, "" for none.
	node string
	// minReady is how long a pod must have been Ready to be available.
	minReady time.Duration
	// ordinal is where the ordinals of a StatefulSet begin.
	ordinal int
	rollout Rollout
	// recreate is set for a Deployment with the strategy Recreate.
	recreate bool
}

var _ runtime.Object = &Owner{}

// GetObjectKind implements runtime.Object.
func (*Owner) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object.
func (o *Owner) DeepCopyObject() runtime.Object {
	c := *o
	c.ObjectMeta = *o.DeepCopy()
	return &c
}

// FirstOrdinal implements governing.Ordinals.
func (o *Owner) FirstOrdinal() int { return o.ordinal }

// Strip returns what Berth reads of a ReplicaSet, StatefulSet, Job or
// Deployment, or nil for a ReplicaSet of an old revision, which has no pods and
// never will without a change. The argument is not changed.
func Strip(o metav1.Object) *Owner {
	kept := &Owner{asked: -1}
	switch o := o.(type) {
	case *Owner:
		return o
	case *appsv1.ReplicaSet:
		if o.Spec.Replicas != nil && *o.Spec.Replicas == 0 && o.Status.Replicas == 0 {
			return nil
		}
		kept.asked, kept.node = replicas(o.Spec.Replicas), strings.Clone(o.Spec.Template.Spec.NodeName)
		kept.minReady = MinReady(o.Spec.MinReadySeconds) // a Deployment and a Rollout copy theirs to their ReplicaSets
	case *appsv1.StatefulSet:
		kept.asked, kept.rollout, kept.node = replicas(o.Spec.Replicas), rolloutOfStatefulSet(o),
			strings.Clone(o.Spec.Template.Spec.NodeName)
		kept.minReady = MinReady(o.Spec.MinReadySeconds)
		if o.Spec.Ordinals != nil {
			kept.ordinal = int(o.Spec.Ordinals.Start)
		}
	case *appsv1.Deployment:
		kept.rollout, kept.recreate = rolloutOfDeployment(o), o.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
	case *batchv1.Job:
		kept.ended, kept.node = jobEnded(o), strings.Clone(o.Spec.Template.Spec.NodeName)
		if kept.toleratesEvictions = toleratesEvictions(o); kept.toleratesEvictions {
			kept.asked = jobReplicas(o)
		}
	default:
		return nil
	}
	kept.ended = kept.ended || o.GetDeletionTimestamp() != nil
	kept.ObjectMeta = stripMeta(o)
	return kept
}

func stripMeta(o metav1.Object) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), Generation: o.GetGeneration(),
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

// SetOwner adds a ReplicaSet, StatefulSet, Job or Deployment, stripped or not,
// or takes over what changed.
func (st *State) SetOwner(o metav1.Object) {
	kept := Strip(o)
	if kept == nil {
		st.DeleteOwner(o.GetUID())
		return
	}
	st.mu.Lock()
	kept.Namespace = st.texts.one(kept.Namespace)
	for i := range kept.OwnerReferences {
		ref := &kept.OwnerReferences[i]
		ref.APIVersion, ref.Kind = st.texts.one(ref.APIVersion), st.texts.one(ref.Kind)
	}
	old := st.objects[o.GetUID()]
	same := old != nil && sameState(old, kept)
	st.objects[o.GetUID()] = kept
	var keys []governing.GroupKey
	if !same {
		st.file(old, kept)
		keys = st.staleBelow(kept)
	}
	st.mu.Unlock()
	st.changed(keys...)
}

// DeleteOwner forgets a workload controller.
func (st *State) DeleteOwner(uid types.UID) {
	st.mu.Lock()
	var keys []governing.GroupKey
	if old := st.objects[uid]; old != nil {
		st.file(old, nil)
		delete(st.objects, uid)
		keys = st.staleBelow(old)
	}
	st.mu.Unlock()
	st.changed(keys...)
}

// file keeps the index of who controls whom; st.mu is held.
func (st *State) file(before, after *Owner) {
	was, is := above(before), above(after)
	if was == is {
		return
	}
	if was != "" {
		if st.below[was] = without(st.below[was], before.GetUID()); len(st.below[was]) == 0 {
			delete(st.below, was)
		}
	}
	if is != "" {
		st.below[is] = append(st.below[is], after.GetUID())
	}
}

// above is the UID of a controller's own controller, "" if it has none.
func above(o *Owner) types.UID {
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
func (st *State) Owner(uid types.UID) metav1.Object {
	st.mu.RLock()
	defer st.mu.RUnlock()
	if o := st.objects[uid]; o != nil {
		return o
	}
	return nil // and no *Owner that is nil
}

// sameState reports whether an update of a controller is none that counts.
func sameState(a, b *Owner) bool {
	return a.Namespace == b.Namespace && a.Name == b.Name && above(a) == above(b) &&
		maps.Equal(a.Annotations, b.Annotations) && maps.Equal(a.Labels, b.Labels) && sameDemand(a, b)
}

// sameDemand reports whether two states of a controller create the same pods at the same times.
func sameDemand(a, b *Owner) bool {
	return a.Generation == b.Generation && a.asked == b.asked && a.ordinal == b.ordinal && a.rollout == b.rollout &&
		a.ended == b.ended && a.toleratesEvictions == b.toleratesEvictions && a.node == b.node && a.minReady == b.minReady &&
		a.recreate == b.recreate
}

// controllersOf finds the controllers of the cluster state. The lock must be held.
type controllersOf struct{ *State }

// Controller implements governing.Controllers.
func (c controllersOf) Controller(namespace string, ref *metav1.OwnerReference) metav1.Object {
	if o := c.object(namespace, ref.UID); o != nil {
		return o
	}
	return nil // and no *Owner that is nil
}

// MixUnder returns the mix that would govern a pod if its controller had the annotations of an object, nil for none.
func (st *State) MixUnder(pod *corev1.Pod, controller metav1.Object) *governing.Mix {
	st.mu.RLock()
	defer st.mu.RUnlock()
	r := *st.resolver
	r.Controllers = known{controllersOf{st}, controller}
	p, _ := r.Resolve(pod)
	return p
}

// known has one controller in another state than the cluster state has it.
type known struct {
	controllersOf
	controller metav1.Object
}

// Controller implements governing.Controllers.
func (k known) Controller(namespace string, ref *metav1.OwnerReference) metav1.Object {
	if ref.UID == k.controller.GetUID() && namespace == k.controller.GetNamespace() {
		return k.controller
	}
	return k.controllersOf.Controller(namespace, ref)
}

// object returns a controller of a namespace. One of another namespace controls
// nothing there, whatever a reference names; st.mu is held.
func (st *State) object(namespace string, uid types.UID) *Owner {
	if o := st.objects[uid]; o != nil && o.Namespace == namespace {
		return o
	}
	return nil
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
	// Unavailable is how many replicas of all revisions are not available while a Deployment is rolling, MaxUnavailable how
	// many its strategy allows.
	Unavailable, MaxUnavailable int
}

func rolloutOfDeployment(o *appsv1.Deployment) Rollout {
	s := &o.Status
	r := Rollout{Rolling: s.ObservedGeneration < o.Generation || int(s.UpdatedReplicas) < replicas(o.Spec.Replicas) ||
		s.Replicas > s.UpdatedReplicas}
	for _, c := range s.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse {
			r.Stuck = true
		}
	}
	if r.Rolling {
		want := replicas(o.Spec.Replicas)
		r.Unavailable, r.MaxUnavailable = max(0, want-int(s.AvailableReplicas)), maxUnavailable(o.Spec.Strategy.RollingUpdate, want)
	}
	return r
}

// maxUnavailable rounds down, as the Deployment controller does. What cannot be read allows nothing.
func maxUnavailable(u *appsv1.RollingUpdateDeployment, replicas int) int {
	if u == nil || u.MaxUnavailable == nil {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(u.MaxUnavailable, replicas, false)
	if err != nil {
		return 0
	}
	return max(0, n)
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
		// A partition that stays is no rollout, but a LeaderWorkerSet lowers that of its leaders step by step.
		if ref := metav1.GetControllerOfNoCopy(o); ref == nil || !governing.RestartsWhole(ref.APIVersion, ref.Kind) {
			want -= int(*u.Partition)
		}
	}
	return Rollout{Rolling: int(s.UpdatedReplicas) < want}
}
