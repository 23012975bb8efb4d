// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	"bytes"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
)

// Field managers under which Berth patches pods.
const (
	schedulerManager  = "berth-scheduler"
	controllerManager = "berth-controller"
)

var (
	costField = []byte(`"f:` + v1alpha1.PodDeletionCostAnnotation + `"`)
	slotField = []byte(`"f:` + v1alpha1.SlotAnnotation + `"`)
	// createdField is a field of the manager that created the pod.
	createdField = []byte(`"f:containers"`)
)

// CostOrigin is who decided the deletion cost of a pod.
type CostOrigin uint8

const (
	// CostOfBerth is that of the slot, or there is none yet.
	CostOfBerth CostOrigin = iota
	// CostOfUser is the user's choice: the pod was created with it, from its template or by a webhook, or a person set it
	// with kubectl.
	CostOfUser
	// CostOverwritten was written by another client on a pod that existed, as Karpenter does.
	CostOverwritten
)

// people is how the names of the field managers of kubectl begin: kubectl-annotate, kubectl-edit, kubectl-patch.
const people = "kubectl"

// CostWriter returns who decided the deletion cost of a pod, with the field manager that owns it if that is not Berth. The
// API server records no manager for what it merges from a Binding, so a cost without one is the scheduler's. A client that
// changes a value becomes its only owner, so the value of a pod template that was changed afterwards is no longer the user's.
func CostWriter(o *corev1.Pod) (origin CostOrigin, manager string) {
	if _, set := o.Annotations[v1alpha1.PodDeletionCostAnnotation]; !set {
		return CostOfBerth, ""
	}
	for i := range o.ManagedFields {
		e := &o.ManagedFields[i]
		fields := fieldsOfOthers(e)
		switch {
		case !bytes.Contains(fields, costField):
		case bytes.Contains(fields, createdField), strings.HasPrefix(e.Manager, people):
			return CostOfUser, e.Manager
		default:
			origin, manager = CostOverwritten, e.Manager
		}
	}
	return origin, manager
}

// CostByOthers reports whether another client than Berth decided the deletion cost of a pod.
func CostByOthers(o *corev1.Pod) bool {
	origin, _ := CostWriter(o)
	return origin != CostOfBerth
}

// Stays reports whether the deletion cost of a pod with a controller, which may be nil, is left as it is under a mix: the user chose it, or
// another client wrote it and the mix leaves the costs to others, or no controller reads it.
func (o CostOrigin) Stays(owner *metav1.OwnerReference, m *governing.Mix) bool {
	return o == CostOfUser || o == CostOverwritten && (m.RespectCosts || !governing.RemovedByCost(owner))
}

// CostOverwritten reports whether a scale-down of the pod's owner no longer removes the highest slots first because another client has
// overwritten the deletion cost that belongs to the slot. Owners other than ReplicaSets and ReplicationControllers ignore the cost.
func (p *Pod) CostOverwritten() bool {
	return p.CostOrigin == CostOverwritten && p.slot > 0 && !p.costly && governing.RemovedByCost(p.Owner)
}

// Overwritten counts the replicas whose deletion cost another client has overwritten. Under a mix that leaves the costs to others, that is
// none.
func (g *Group) Overwritten() (n int) {
	if g.Governing.RespectCosts {
		return 0
	}
	for i := range g.Assignments {
		if slices.ContainsFunc(g.Assignments[i].Members(), (*Pod).CostOverwritten) {
			n++
		}
	}
	return n
}

// ScalesDownByOthers reports whether a scale-down can leave the mix because the mix leaves the deletion costs to other clients: the owner
// removes replicas by their costs, and the group has replicas of both types.
func (g *Group) ScalesDownByOthers() bool {
	m := g.Governing
	return m.RespectCosts && !g.Ended && m.Mix.Spot(g.Replicas) > 0 && m.Mix.OnDemand(g.Replicas) > 0 &&
		slices.ContainsFunc(g.Assignments, func(s Assignment) bool { return governing.RemovedByCost(s.Pod.Owner) })
}

// slotByOthers reports whether another client has edited the slot of a pod since
// it was created. The manager that created the pod still owns a slot of the
// template after the Binding has replaced its value, so its entry proves nothing.
func slotByOthers(o *corev1.Pod) bool {
	_, set := o.Annotations[v1alpha1.SlotAnnotation]
	return set && slices.ContainsFunc(o.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		fields := fieldsOfOthers(&e)
		return bytes.Contains(fields, slotField) && !bytes.Contains(fields, createdField)
	})
}

// fieldsOfOthers returns the fields of an entry of another manager than Berth's.
func fieldsOfOthers(e *metav1.ManagedFieldsEntry) []byte {
	if e.Manager == schedulerManager || e.Manager == controllerManager || e.FieldsV1 == nil {
		return nil
	}
	return e.FieldsV1.GetRawBytes()
}
