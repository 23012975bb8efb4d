// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"berth.dev/berth/internal/kube/controllerref"
	"berth.dev/berth/internal/mix/policy"
)

// controllers finds the ReplicaSet, StatefulSet or Job that owns a pod, and the
// Deployment above a ReplicaSet where labels of Deployments are read. Other
// kinds are not known: their users annotate the pod template.
type controllers struct {
	replicaSets  appslisters.ReplicaSetLister
	statefulSets appslisters.StatefulSetLister
	jobs         batchlisters.JobLister
	deployments  appslisters.DeploymentLister // nil unless needed
	// read are owners that the caches had not seen; see inquiry.
	read *ownerMemory
	// misses counts the owners that were looked up and are not known.
	misses atomic.Uint64
}

const (
	// readOwners is how many owners are remembered in a namespace.
	readOwners = 256
	// missingFor is how long an owner counts as one that does not exist, unreadableFor one that could not be read.
	missingFor, unreadableFor = 10 * time.Minute, 30 * time.Second
	// maxUID is longer than any UID that an API server gives. An owner reference may have any text.
	maxUID = 64
)

// found is an owner as it was read, or that there was none.
type found struct {
	owner metav1.Object // nil: none
	until time.Time     // zero: until the caches have it
}

func newControllers(factory informers.SharedInformerFactory, prefixes []string) *controllers {
	c := &controllers{
		replicaSets:  factory.Apps().V1().ReplicaSets().Lister(),
		statefulSets: factory.Apps().V1().StatefulSets().Lister(),
		jobs:         factory.Batch().V1().Jobs().Lister(),
		read:         newOwnerMemory(readOwners),
	}
	if slices.Contains(prefixes, policy.PrefixSpotalis) {
		deployments := factory.Apps().V1().Deployments()
		if err := deployments.Informer().SetTransform(policy.BoundObject); err != nil { // it was started before
			klog.Background().Error(err, "Annotations of Deployments are kept whole")
		}
		c.deployments = deployments.Lister()
	}
	return c
}

// Controller implements policy.Controllers. It reads no API: it is called in
// scheduling cycles and under locks.
func (c *controllers) Controller(namespace string, ref *metav1.OwnerReference) metav1.Object {
	owner, known := c.lookup(namespace, ref)
	if !known {
		c.misses.Add(1)
	}
	return owner
}

// lookup returns an owner, nil if there is none. known is false for one that
// may exist: it must be read before it is certain.
//
// The caches of pods and of their owners are filled by different watches, so a
// pod of a new Deployment can be here before its ReplicaSet is.
func (c *controllers) lookup(namespace string, ref *metav1.OwnerReference) (owner metav1.Object, known bool) {
	if owner := c.cached(namespace, ref); owner != nil && owner.GetUID() == ref.UID {
		return owner, true
	}
	if c.kind(ref) == "" {
		return nil, true
	}
	value, known := c.read.get(namespace, ref.UID)
	f, _ := value.(found)
	if known && !f.until.IsZero() && !time.Now().Before(f.until) {
		return nil, false
	}
	return f.owner, known
}

// missing returns the reference to the owner of a pod, or to the Deployment above
// it where labels of Deployments are read, that must be read before the mix of
// the pod is certain; nil if there is none.
func (c *controllers) missing(pod *corev1.Pod) *metav1.OwnerReference {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return nil
	}
	owner, known := c.lookup(pod.Namespace, ref)
	if !known {
		return ref
	}
	if owner == nil || c.deployments == nil {
		return nil
	}
	if ref = metav1.GetControllerOfNoCopy(owner); ref == nil {
		return nil
	}
	if _, known = c.lookup(pod.Namespace, ref); known {
		return nil
	}
	return ref
}

// remember takes over an owner that was read, without what is not looked at.
func (c *controllers) remember(namespace string, ref *metav1.OwnerReference, owner metav1.Object, err error) {
	f := found{owner: owner}
	switch o := owner.(type) {
	case nil:
		f.until = time.Now().Add(missingFor)
		if err != nil {
			f.until = time.Now().Add(unreadableFor)
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
		owner.SetAnnotations(policy.Bounded(owner.GetAnnotations()))
	}
	c.read.set(namespace, ref.UID, f)
}

// kind returns the owner's kind if it is one that is watched.
func (c *controllers) kind(ref *metav1.OwnerReference) string {
	if k := controllerref.KindOf(ref); len(ref.UID) <= maxUID && (k != controllerref.Deployment || c.deployments != nil) {
		return k
	}
	return ""
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

func (c *controllers) cached(namespace string, ref *metav1.OwnerReference) metav1.Object {
	switch c.kind(ref) {
	case controllerref.ReplicaSet:
		return object(c.replicaSets.ReplicaSets(namespace).Get(ref.Name))
	case controllerref.StatefulSet:
		return object(c.statefulSets.StatefulSets(namespace).Get(ref.Name))
	case controllerref.Job:
		return object(c.jobs.Jobs(namespace).Get(ref.Name))
	case controllerref.Deployment:
		return object(c.deployments.Deployments(namespace).Get(ref.Name))
	}
	return nil
}

// forget drops a remembered owner: from now on the caches know it.
func (c *controllers) forget(owner metav1.Object) {
	c.read.forget(owner.GetNamespace(), owner.GetUID())
}

// rememberedNamespaces is in how many namespaces owners are remembered.
const rememberedNamespaces = 1024

// ownerMemory remembers something of owners. Each namespace has its own memory:
// what the pods of one make up pushes nothing out that another one needs. An
// owner is known by its namespace and UID: a pod can name the UID of another
// namespace's.
type ownerMemory struct {
	mu         sync.Mutex // guards what is done to namespaces together
	most       int
	namespaces *lru.Cache // of *lru.Cache by UID
}

func newOwnerMemory(most int) *ownerMemory {
	return &ownerMemory{most: most, namespaces: lru.New(rememberedNamespaces)}
}

func (m *ownerMemory) get(namespace string, uid types.UID) (any, bool) {
	if of, known := m.namespaces.Get(namespace); known {
		return of.(*lru.Cache).Get(uid)
	}
	return nil, false
}

func (m *ownerMemory) set(namespace string, uid types.UID, value any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of, known := m.namespaces.Get(namespace)
	if !known {
		of = lru.New(m.most)
		m.namespaces.Add(namespace, of)
	}
	of.(*lru.Cache).Add(uid, value)
}

func (m *ownerMemory) forget(namespace string, uid types.UID) {
	if of, known := m.namespaces.Get(namespace); known {
		of.(*lru.Cache).Remove(uid)
	}
}
