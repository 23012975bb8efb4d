// SPDX-License-Identifier: Apache-2.0

// Package snapshot is the document that has what a simulation reads of a cluster: it reduces objects to the fields that decisions read,
// replaces names by pseudonyms, and writes and reads the file.
package snapshot

import (
	"cmp"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/apis/v1alpha1"
)

// The version and the kind of the document.
const (
	APIVersion = "sim.berth.dev/v1alpha1"
	Kind       = "Snapshot"
)

// Snapshot is the state of a cluster at one moment. Objects share the maps and slices that are equal: copy an object before you change it.
type Snapshot struct {
	Header `json:",inline"`

	Namespaces           []*corev1.Namespace             `json:"namespaces,omitempty"`
	PriorityClasses      []*schedulingv1.PriorityClass   `json:"priorityClasses,omitempty"`
	Nodes                []*corev1.Node                  `json:"nodes,omitempty"`
	CapacityMixes        []*v1alpha1.CapacityMix         `json:"capacityMixes,omitempty"`
	ResourceLimits       []*v1alpha1.ResourceLimit       `json:"resourceLimits,omitempty"`
	SchedulingPolicies   []*v1alpha1.SchedulingPolicy    `json:"schedulingPolicies,omitempty"`
	Reservations         []*v1alpha1.Reservation         `json:"reservations,omitempty"`
	PodDisruptionBudgets []*policyv1.PodDisruptionBudget `json:"podDisruptionBudgets,omitempty"`
	Deployments          []*appsv1.Deployment            `json:"deployments,omitempty"`
	ReplicaSets          []*appsv1.ReplicaSet            `json:"replicaSets,omitempty"`
	StatefulSets         []*appsv1.StatefulSet           `json:"statefulSets,omitempty"`
	Jobs                 []*batchv1.Job                  `json:"jobs,omitempty"`
	Pods                 []*corev1.Pod                   `json:"pods,omitempty"`
}

// Header is what is known of the snapshot itself.
type Header struct {
	metav1.TypeMeta `json:",inline"`
	// Time is when the first list was read. The lists are read one after the other, so they are not of exactly the same moment.
	Time metav1.Time `json:"time"`
	// BerthVersion is that of the program that took the snapshot, and ServerVersion that of the API server, "" if it is unknown.
	BerthVersion  string `json:"berthVersion,omitempty"`
	ServerVersion string `json:"serverVersion,omitempty"`
	// Namespace is the only one whose objects were read, "" for all. Pods of other namespaces then seem to take no capacity.
	Namespace string `json:"namespace,omitempty"`
	// Anonymised is set where names are pseudonyms.
	Anonymised bool `json:"anonymised,omitempty"`
	// Missing are the lists that could not be read: that a list is empty here does not mean that there are no objects.
	Missing []Missing `json:"missing,omitempty"`
}

// Missing is a list that could not be read.
type Missing struct {
	// List is the name of its field.
	List   string `json:"list"`
	Reason Reason `json:"reason"`
}

// Reason is why a list could not be read.
type Reason string

// Reasons.
const (
	// Forbidden means that a right is missing.
	Forbidden Reason = "Forbidden"
	// NotServed means that the API server does not serve the kind.
	NotServed Reason = "NotServed"
)

// Object is an object of a list.
type Object interface {
	metav1.Object
	runtime.Object
}

// Builder makes a snapshot of objects. It is not safe for concurrent use.
type Builder struct {
	snapshot *Snapshot
	lists    []list
	shared   shared
}

// NewBuilder returns a builder of a snapshot that has no objects yet.
func NewBuilder(h Header) *Builder {
	h.APIVersion, h.Kind = APIVersion, Kind
	s := &Snapshot{Header: h}
	return &Builder{snapshot: s, lists: s.lists(), shared: newShared()}
}

// Add adds what a snapshot has of an object.
func (b *Builder) Add(o Object) error {
	for _, l := range b.lists {
		if l.add(o, &b.shared) {
			return nil
		}
	}
	return fmt.Errorf("a snapshot has no list for a %T", o)
}

// Remove removes all objects of a list, as before it is read again.
func (b *Builder) Remove(name string) {
	for _, l := range b.lists {
		if l.name() == name {
			l.empty()
		}
	}
}

// Missing notes that a list could not be read.
func (b *Builder) Missing(name string, reason Reason) {
	b.snapshot.Missing = append(b.snapshot.Missing, Missing{List: name, Reason: reason})
}

// Snapshot returns the snapshot, with the objects of each list in the order of their namespaces and names.
func (b *Builder) Snapshot() *Snapshot {
	for _, l := range b.lists {
		l.sort()
	}
	return b.snapshot
}

// Count is how many objects a list has.
type Count struct {
	List    string
	Objects int
}

// Counts returns how many objects each list has, in the order of the document.
func (s *Snapshot) Counts() (all []Count) {
	for _, l := range s.lists() {
		all = append(all, Count{l.name(), l.len()})
	}
	return all
}

// lists returns the lists in the order of the document: pods, most of it, come last.
func (s *Snapshot) lists() []list {
	return []list{
		&listOf[corev1.Namespace, *corev1.Namespace]{"namespaces", false, &s.Namespaces, keepNamespace},
		&listOf[schedulingv1.PriorityClass, *schedulingv1.PriorityClass]{"priorityClasses", false, &s.PriorityClasses, keepPriorityClass},
		&listOf[corev1.Node, *corev1.Node]{"nodes", false, &s.Nodes, keepNode},
		&listOf[v1alpha1.CapacityMix, *v1alpha1.CapacityMix]{"capacityMixes", true, &s.CapacityMixes, keepCapacityMix},
		&listOf[v1alpha1.ResourceLimit, *v1alpha1.ResourceLimit]{"resourceLimits", true, &s.ResourceLimits, keepResourceLimit},
		&listOf[v1alpha1.SchedulingPolicy, *v1alpha1.SchedulingPolicy]{
			"schedulingPolicies", true, &s.SchedulingPolicies, keepSchedulingPolicy,
		},
		&listOf[v1alpha1.Reservation, *v1alpha1.Reservation]{"reservations", true, &s.Reservations, keepReservation},
		&listOf[policyv1.PodDisruptionBudget, *policyv1.PodDisruptionBudget]{
			"podDisruptionBudgets", true, &s.PodDisruptionBudgets, keepPodDisruptionBudget,
		},
		&listOf[appsv1.Deployment, *appsv1.Deployment]{"deployments", true, &s.Deployments, keepDeployment},
		&listOf[appsv1.ReplicaSet, *appsv1.ReplicaSet]{"replicaSets", true, &s.ReplicaSets, keepReplicaSet},
		&listOf[appsv1.StatefulSet, *appsv1.StatefulSet]{"statefulSets", true, &s.StatefulSets, keepStatefulSet},
		&listOf[batchv1.Job, *batchv1.Job]{"jobs", true, &s.Jobs, keepJob},
		&listOf[corev1.Pod, *corev1.Pod]{"pods", true, &s.Pods, keepPod},
	}
}

// list is a list of a snapshot.
type list interface {
	// name is that of the field.
	name() string
	inNamespaces() bool
	len() int
	at(i int) Object
	// fresh returns an object without fields.
	fresh() Object
	// add adds what is kept of an object, and reports whether the object is one of the list.
	add(o Object, s *shared) bool
	empty()
	sort()
}

// pointer is a pointer to a T that is an object.
type pointer[T any] interface {
	*T
	Object
}

type listOf[T any, P pointer[T]] struct {
	field      string
	namespaced bool
	items      *[]P
	// keep returns a new object that has only what is kept.
	keep func(P) P
}

func (l *listOf[T, P]) name() string       { return l.field }
func (l *listOf[T, P]) inNamespaces() bool { return l.namespaced }
func (l *listOf[T, P]) len() int           { return len(*l.items) }
func (l *listOf[T, P]) at(i int) Object    { return (*l.items)[i] }
func (l *listOf[T, P]) fresh() Object      { return P(new(T)) }
func (l *listOf[T, P]) empty()             { *l.items = nil }

func (l *listOf[T, P]) add(o Object, s *shared) bool {
	object, ok := o.(P)
	if ok {
		kept := l.keep(object)
		s.share(kept)
		*l.items = append(*l.items, kept)
	}
	return ok
}

func (l *listOf[T, P]) sort() {
	slices.SortStableFunc(*l.items, func(a, b P) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}
