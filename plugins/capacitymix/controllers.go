// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	appslisters "k8s.io/client-go/listers/apps/v1"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/utils/lru"

	"berth.dev/berth/internal/owners"
	"berth.dev/berth/internal/policy"
)

// controllers finds the ReplicaSet, StatefulSet or Job that owns a pod, and the
// Deployment above a ReplicaSet where labels of Deployments are read. Other
// kinds are not known: their users annotate the pod template.
type controllers struct {
	replicaSets  appslisters.ReplicaSetLister
	statefulSets appslisters.StatefulSetLister
	jobs         batchlisters.JobLister
	deployments  appslisters.DeploymentLister // nil unless needed
	// client reads an owner that the caches have not seen yet; nil: never.
	client clientset.Interface
	// fetched remembers by UID what client returned, nil for "not found".
	fetched *lru.Cache
}

// fetchTimeout bounds the read of one owner, fetchedOwners how many are remembered.
const (
	fetchTimeout  = 2 * time.Second
	fetchedOwners = 1024
)

func newControllers(factory informers.SharedInformerFactory, client clientset.Interface, prefixes []string) *controllers {
	c := &controllers{
		replicaSets:  factory.Apps().V1().ReplicaSets().Lister(),
		statefulSets: factory.Apps().V1().StatefulSets().Lister(),
		jobs:         factory.Batch().V1().Jobs().Lister(),
		client:       client,
		fetched:      lru.New(fetchedOwners),
	}
	if slices.Contains(prefixes, policy.PrefixSpotalis) {
		c.deployments = factory.Apps().V1().Deployments().Lister()
	}
	return c
}

// listed returns the same without the live read: for event handlers, which are
// called again when the owner is seen.
func (c *controllers) listed() *controllers {
	l := *c
	l.client = nil
	return &l
}

// Controller implements policy.Controllers.
//
// The caches of pods and of their owners are filled by different watches, so a
// pod of a new Deployment can be here before its ReplicaSet is. Placing that
// pod without the mix on its owner would be wrong for good; one read of the
// owner, once per owner and only in that moment, is the smaller evil.
func (c *controllers) Controller(namespace string, ref *metav1.OwnerReference) metav1.Object {
	if owner := c.cached(namespace, ref); owner != nil && owner.GetUID() == ref.UID {
		return owner
	}
	if c.client == nil || c.kind(ref) == "" {
		return nil
	}
	if owner, known := c.fetched.Get(ref.UID); known {
		object, _ := owner.(metav1.Object)
		return object
	}
	owner := c.fetch(namespace, ref)
	c.fetched.Add(ref.UID, owner)
	return owner
}

// kind returns the owner's kind if it is one that is watched.
func (c *controllers) kind(ref *metav1.OwnerReference) string {
	if k := owners.KindOf(ref); k != owners.Deployment || c.deployments != nil {
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
	case owners.ReplicaSet:
		return object(c.replicaSets.ReplicaSets(namespace).Get(ref.Name))
	case owners.StatefulSet:
		return object(c.statefulSets.StatefulSets(namespace).Get(ref.Name))
	case owners.Job:
		return object(c.jobs.Jobs(namespace).Get(ref.Name))
	case owners.Deployment:
		return object(c.deployments.Deployments(namespace).Get(ref.Name))
	}
	return nil
}

// fetch reads an owner from the API server; nil if it cannot be had, or is
// another object of the same name.
func (c *controllers) fetch(namespace string, ref *metav1.OwnerReference) metav1.Object {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	owner, _ := owners.Read(ctx, c.client, namespace, ref) // one that cannot be had counts as one without annotations
	ownerReads.Inc()
	return owner
}

// forget drops a remembered owner: from now on the caches know it.
func (c *controllers) forget(uid types.UID) { c.fetched.Remove(uid) }
