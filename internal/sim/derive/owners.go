// SPDX-License-Identifier: Apache-2.0

package derive

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/internal/sim/snapshot"
)

// ownerKey identifies an owner of pods. Objects of a snapshot that a user has written may have no UID.
type ownerKey struct {
	namespace string
	schema.GroupKind
	name string
	// part distinguishes the pods of an owner of which no template is known.
	part string
}

var (
	deploymentKind  = schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}
	replicaSetKind  = schema.GroupKind{Group: appsv1.GroupName, Kind: "ReplicaSet"}
	statefulSetKind = schema.GroupKind{Group: appsv1.GroupName, Kind: "StatefulSet"}
)

// keyOf is that of the owner that a reference names.
func keyOf(namespace string, ref *metav1.OwnerReference) ownerKey {
	return ownerKey{namespace: namespace, GroupKind: schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind(), name: ref.Name}
}

// owners are the objects of a snapshot whose annotations and templates pods have.
type owners map[ownerKey]metav1.Object

func ownersOf(s *snapshot.Snapshot) owners {
	all := owners{}
	for _, o := range s.Deployments {
		all[ownerKey{namespace: o.Namespace, GroupKind: deploymentKind, name: o.Name}] = o
	}
	for _, o := range s.ReplicaSets {
		all[ownerKey{namespace: o.Namespace, GroupKind: replicaSetKind, name: o.Name}] = o
	}
	for _, o := range s.StatefulSets {
		all[ownerKey{namespace: o.Namespace, GroupKind: statefulSetKind, name: o.Name}] = o
	}
	return all
}

// Controller implements governing.Controllers.
func (all owners) Controller(namespace string, ref *metav1.OwnerReference) metav1.Object {
	if o := all[keyOf(namespace, ref)]; o != nil && o.GetUID() == ref.UID {
		return o
	}
	return nil
}

// selecting returns the Deployment that selects a pod: its ReplicaSet is not in the snapshot.
func (d *deriver) selecting(p *corev1.Pod) *workload {
	for _, o := range d.Deployments {
		w := d.byOwner[ownerKey{namespace: o.Namespace, GroupKind: deploymentKind, name: o.Name}]
		if o.Namespace != p.Namespace || w == nil || o.Spec.Selector == nil {
			continue
		}
		if s, err := metav1.LabelSelectorAsSelector(o.Spec.Selector); err == nil && !s.Empty() && s.Matches(labels.Set(p.Labels)) {
			return w
		}
	}
	return nil
}
