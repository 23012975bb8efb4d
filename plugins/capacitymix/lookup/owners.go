// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"slices"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/klog/v2"

	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/controllerref"
	"berth.dev/berth/internal/mix/governing"
)

// Owners finds the ReplicaSet, StatefulSet or Job that owns a pod, and the
// Deployment above a ReplicaSet where labels of Deployments are read. Other
// kinds are not read: their users annotate the pod template.
type Owners struct {
	replicaSets  appslisters.ReplicaSetLister
	statefulSets appslisters.StatefulSetLister
	jobs         batchlisters.JobLister
	deployments  appslisters.DeploymentLister // nil unless needed
	// live are owners that were read from the API server before the informers had them.
	live *ownerCache
	// misses counts the calls of Controller for owners that are not known.
	misses atomic.Uint64
}

const (
	// maxLiveOwners is how many owners of a namespace are cached.
	maxLiveOwners = 256
	// notFoundTTL is how long an owner counts as one that does not exist, unreadableTTL as one that could not be read.
	notFoundTTL, unreadableTTL = 10 * time.Minute, 30 * time.Second
	// maxUID is longer than any UID that an API server assigns. An owner reference may have any text.
	maxUID = 64
)

// liveOwner is the result of a live read.
type liveOwner struct {
	owner   metav1.Object // nil: none
	expires time.Time     // zero: when the informers have it
}

// NewOwners returns the Owners of the informers of a scheduler.
func NewOwners(factory informers.SharedInformerFactory, prefixes []string) *Owners {
	o := &Owners{
		replicaSets:  factory.Apps().V1().ReplicaSets().Lister(),
		statefulSets: factory.Apps().V1().StatefulSets().Lister(),
		jobs:         factory.Batch().V1().Jobs().Lister(),
		live:         newOwnerCache(maxLiveOwners),
	}
	if slices.Contains(prefixes, governing.PrefixSpotalis) {
		deployments := factory.Apps().V1().Deployments()
		if err := deployments.Informer().SetTransform(budget.BoundObject); err != nil { // it was started before
			klog.Background().Error(err, "Annotations of Deployments are kept whole")
		}
		o.deployments = deployments.Lister()
	}
	return o
}

// Controller implements governing.Controllers. It reads caches only: it is called
// in scheduling cycles and under locks.
func (o *Owners) Controller(namespace string, ref *metav1.OwnerReference) metav1.Object {
	owner, known := o.get(namespace, ref)
	if !known {
		o.misses.Add(1)
	}
	return owner
}

// get returns an owner, nil if there is none. known is false for one that may
// exist: it must be read before that is certain.
//
// The caches of pods and of their owners are filled by different watches, so a
// pod of a new Deployment can be here before its ReplicaSet is.
func (o *Owners) get(namespace string, ref *metav1.OwnerReference) (owner metav1.Object, known bool) {
	if owner := o.fromInformers(namespace, ref); owner != nil && owner.GetUID() == ref.UID {
		return owner, true
	}
	if o.kind(ref) == "" {
		return nil, true
	}
	value, known := o.live.get(namespace, ref.UID)
	l, _ := value.(liveOwner)
	if known && !l.expires.IsZero() && !time.Now().Before(l.expires) {
		return nil, false
	}
	return l.owner, known
}

// unknown returns the reference to the owner of a pod, or to the Deployment above
// it where labels of Deployments are read, that must be read before the mix of
// the pod is certain; nil if there is none.
func (o *Owners) unknown(pod *corev1.Pod) *metav1.OwnerReference {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return nil
	}
	owner, known := o.get(pod.Namespace, ref)
	if !known {
		return ref
	}
	if owner == nil || o.deployments == nil {
		return nil
	}
	if ref = metav1.GetControllerOfNoCopy(owner); ref == nil {
		return nil
	}
	if _, known = o.get(pod.Namespace, ref); known {
		return nil
	}
	return ref
}

// store caches the result of a live read, without what is not used.
func (o *Owners) store(namespace string, ref *metav1.OwnerReference, owner metav1.Object, err error) {
	l := liveOwner{owner: owner}
	switch o := owner.(type) {
	case nil:
		l.expires = time.Now().Add(notFoundTTL)
		if err != nil {
			l.expires = time.Now().Add(unreadableTTL)
		}
	case *appsv1.ReplicaSet:
		o.Spec.Template = corev1.PodTemplateSpec{}
	case *appsv1.StatefulSet:
		o.Spec.Template = corev1.PodTemplateSpec{}
	case *appsv1.Deployment:
		o.Spec.Template = corev1.PodTemplateSpec{}
	case *batchv1.Job:
		o.Spec.Template = corev1.PodTemplateSpec{}
	}
	if owner != nil {
		owner.SetManagedFields(nil)
		owner.SetAnnotations(budget.Bounded(owner.GetAnnotations()))
	}
	o.live.set(namespace, ref.UID, l)
}

// Forget drops the result of a live read: from now on the informers have the owner, or it is deleted.
func (o *Owners) Forget(owner metav1.Object) {
	o.live.delete(owner.GetNamespace(), owner.GetUID())
}

// kind returns the owner's kind if it is one that is watched.
func (o *Owners) kind(ref *metav1.OwnerReference) string {
	if k := controllerref.KindOf(ref); len(ref.UID) <= maxUID && (k != controllerref.Deployment || o.deployments != nil) {
		return k
	}
	return ""
}

func (o *Owners) fromInformers(namespace string, ref *metav1.OwnerReference) metav1.Object {
	switch o.kind(ref) {
	case controllerref.ReplicaSet:
		return object(o.replicaSets.ReplicaSets(namespace).Get(ref.Name))
	case controllerref.StatefulSet:
		return object(o.statefulSets.StatefulSets(namespace).Get(ref.Name))
	case controllerref.Job:
		return object(o.jobs.Jobs(namespace).Get(ref.Name))
	case controllerref.Deployment:
		return object(o.deployments.Deployments(namespace).Get(ref.Name))
	}
	return nil
}

// object turns a typed nil, as listers return with an error, into a plain one.
func object[T any, P interface {
	*T
	metav1.Object
}](o P, err error) metav1.Object {
	if err != nil {
		return nil
	}
	return o
}
