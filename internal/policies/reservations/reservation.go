// SPDX-License-Identifier: Apache-2.0

// Package reservations decides which capacity Reservations hold, and which pods may use it. It reads no API and writes none.
package reservations

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
)

const (
	// MaxPerNamespace is the number of Reservations of a namespace that hold capacity, the oldest ones that are not finished:
	// each costs every pod of the namespace a match of its labels.
	MaxPerNamespace = 100

	// maxExtended is the number of extended resources that a Reservation can have, mostExtended the most of one of them.
	maxExtended, mostExtended = 4, 1_000_000

	// PlaceholderValue is the value of v1alpha1.PlaceholderLabel on placeholder pods for what a Reservation holds.
	PlaceholderValue = "reservation"

	defaultSchedulerName                              = "berth-scheduler"
	defaultExpirationSeconds, defaultTTLSeconds int32 = 3600, 3600
)

// Reservation is a compiled Reservation. It is shared and must not be changed.
type Reservation struct {
	Object *v1alpha1.Reservation
	// Err is why the Reservation holds nothing, nil if it is valid.
	Err error
	// Replicas is the number of pods for which capacity is to be held.
	Replicas int
	// Requests is what is held for each of them, Unit the same with the pod itself.
	Requests corev1.ResourceList
	Unit     Amounts
	// Once is set if capacity that was used is not held again.
	Once bool
	// Expires is when the Reservation expires.
	Expires time.Time

	selector *budget.Selector
}

// Compile compiles a Reservation, which must not be changed afterwards.
func Compile(object *v1alpha1.Reservation) *Reservation {
	spec := &object.Spec
	r := &Reservation{
		Object: object, Replicas: int(ptr.Deref(spec.Replicas, 1)), Requests: requests(spec), Once: ptr.Deref(spec.AllocateOnce, true),
		Expires: object.CreationTimestamp.Add(seconds(spec.ExpirationSeconds, defaultExpirationSeconds)),
	}
	r.Unit = AmountsOf(r.Requests)
	if spec.PodSelector == nil {
		return r
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.PodSelector.AsLabelSelector())
	if err != nil {
		r.Err = fmt.Errorf("spec.podSelector: %w", err)
		return r
	}
	r.selector = budget.CompileSelector(selector)
	return r
}

func seconds(s *int32, otherwise int32) time.Duration {
	return time.Duration(ptr.Deref(s, otherwise)) * time.Second
}

// standard are the fields of the resources that have one, by name.
func standard(spec *v1alpha1.ReservationSpec) map[corev1.ResourceName]**resource.Quantity {
	return map[corev1.ResourceName]**resource.Quantity{
		corev1.ResourceCPU: &spec.CPU, corev1.ResourceMemory: &spec.Memory, corev1.ResourceEphemeralStorage: &spec.EphemeralStorage,
	}
}

// requests is what a Reservation holds for each pod.
func requests(spec *v1alpha1.ReservationSpec) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, field := range standard(spec) {
		if *field != nil {
			list[name] = **field
		}
	}
	for name, n := range spec.ExtendedResources {
		list[corev1.ResourceName(name)] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	return list
}

// SetRequests has a Reservation hold what it can of the requests of a pod, and reports whether that is anything. A Reservation has no
// fields for huge pages, and for extended resources beyond its bounds: the API server would refuse it for them.
func SetRequests(spec *v1alpha1.ReservationSpec, requests corev1.ResourceList) (some bool) {
	fields := standard(spec)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		quantity := requests[name]
		if quantity.IsZero() {
			continue
		}
		if field, isStandard := fields[name]; isStandard {
			*field, some = &quantity, true
			continue
		}
		n := amount(&quantity, 0)
		if strings.Contains(string(name), "/") && n <= mostExtended && len(spec.ExtendedResources) < maxExtended {
			if spec.ExtendedResources == nil {
				spec.ExtendedResources = map[string]int64{}
			}
			spec.ExtendedResources[string(name)], some = n, true
		}
	}
	return some
}

// SchedulerName is the name of the profile by whose rules nodes are chosen.
func (r *Reservation) SchedulerName() string {
	return cmp.Or(r.Object.Spec.SchedulerName, defaultSchedulerName)
}

// TTL is how long the Reservation is kept when it is finished.
func (r *Reservation) TTL() time.Duration {
	return seconds(r.Object.Spec.TTLSecondsAfterFinished, defaultTTLSeconds)
}

// Group is the group of pods whose binding the Reservation prepares, empty for one that a user made.
func (r *Reservation) Group() string { return r.Object.Labels[v1alpha1.BindGroupLabel] }

// Selects reports whether a pod may use the capacity.
func (r *Reservation) Selects(pod *corev1.Pod) bool {
	return r.selects(pod.Namespace, pod.Name, pod.Labels)
}

func (r *Reservation) selects(namespace, name string, podLabels map[string]string) bool {
	_, holds := podLabels[v1alpha1.PlaceholderLabel] // it holds capacity itself
	switch {
	case holds || r.Err != nil || namespace != r.Object.Namespace:
		return false
	case r.selector == nil:
		return name == r.Object.Spec.PodName
	}
	return r.selector.Matches(podLabels)
}

// Pod returns a pod that the scheduler chooses a node for as if it used the capacity. It is never created.
func (r *Reservation) Pod() *corev1.Pod {
	spec := &r.Object.Spec
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.Object.Namespace, Name: r.Object.Name, UID: r.Object.UID, CreationTimestamp: r.Object.CreationTimestamp,
		// No mix and no policy that selects all pods has to place it: it has no slot.
		Labels: map[string]string{v1alpha1.PlaceholderLabel: PlaceholderValue},
	}}
	pod.Spec = corev1.PodSpec{
		SchedulerName: r.SchedulerName(), NodeSelector: spec.NodeSelector, Tolerations: r.Tolerations(),
		Containers: []corev1.Container{{Name: "reservation", Resources: corev1.ResourceRequirements{Requests: r.Requests}}},
	}
	if spec.NodeName != "" {
		is := corev1.NodeSelectorRequirement{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{spec.NodeName},
		}
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchFields: []corev1.NodeSelectorRequirement{is}},
			}},
		}}
	}
	return pod
}

// Tolerations are the tolerations of a pod that uses the capacity.
func (r *Reservation) Tolerations() []corev1.Toleration {
	var out []corev1.Toleration
	for _, t := range r.Object.Spec.Tolerations {
		out = append(out, corev1.Toleration(t))
	}
	return out
}

// oldest orders Reservations: oldest first, then by name and namespace.
func oldest(a, b *entry) int {
	return cmp.Or(a.r.Object.CreationTimestamp.Compare(b.r.Object.CreationTimestamp.Time),
		cmp.Compare(a.r.Object.Name, b.r.Object.Name), cmp.Compare(a.r.Object.Namespace, b.r.Object.Namespace))
}

// insert puts an entry into a sorted list.
func insert(list []*entry, e *entry) []*entry {
	at, _ := slices.BinarySearchFunc(list, e, oldest)
	return slices.Insert(list, at, e)
}
