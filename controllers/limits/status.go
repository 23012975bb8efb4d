// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/limits/registry"
)

const (
	// maxWorkloads is what the status lists; workloadCount counts all.
	maxWorkloads = 50
	// named is how many workloads a message names.
	named = 5
	// maxMessage is the length that the API allows a condition's message.
	maxMessage = 1024
	// maxKind and maxName are the lengths that kinds and names have. The owner references of pods hold any length.
	maxKind, maxName = 63, 253
)

// compose returns the status of a limit from its usage; invalid is why it cannot be parsed. It is a pure function: the same state
// gives the same status.
func compose(limit *v1alpha1.ResourceLimit, invalid error, u *Usage, now time.Time) v1alpha1.ResourceLimitStatus {
	workloads := u.sorted()
	s := v1alpha1.ResourceLimitStatus{
		ObservedGeneration: limit.Generation,
		Conditions:         slices.Clone(limit.Status.Conditions),
		PodCount:           number(u.Pods),
		WorkloadCount:      number(len(workloads) - bare(workloads)),
		Workloads:          workloads[:min(len(workloads), maxWorkloads)],
	}
	for _, c := range []metav1.Condition{accepted(invalid, u), inUse(limit, u, workloads)} {
		c.ObservedGeneration, c.LastTransitionTime = limit.Generation, metav1.NewTime(now)
		c.Message = applyset.Shorten(c.Message, maxMessage)
		meta.SetStatusCondition(&s.Conditions, c)
	}
	return s
}

// bare is how many of the references are pods without a controller: users of the limit, but no workloads.
func bare(all []v1alpha1.WorkloadReference) (n int) {
	for _, w := range all {
		if w.Kind == "Pod" {
			n++
		}
	}
	return n
}

func number(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

// accepted is the condition that the limit applies to the pods that it selects.
func accepted(invalid error, u *Usage) metav1.Condition {
	c := metav1.Condition{
		Type:    v1alpha1.ConditionAccepted,
		Status:  metav1.ConditionTrue,
		Reason:  v1alpha1.ReasonAccepted,
		Message: "pods may have this size",
	}
	switch {
	case invalid != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonInvalid, invalid.Error()
	case u.Exceeds:
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonTooMany
		c.Message = budget.Exceeded("ResourceLimits with spec.selector", registry.MaxSelecting)
	case len(u.Older) > 0:
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonConflict
		c.Message = "pods that spec.selector selects have an older ResourceLimit: " + strings.Join(slices.Sorted(maps.Keys(u.Older)), ", ")
	}
	return c
}

// inUse is the condition that pods or workloads use the limit, which blocks its deletion.
func inUse(limit *v1alpha1.ResourceLimit, u *Usage, workloads []v1alpha1.WorkloadReference) metav1.Condition {
	c := metav1.Condition{
		Type:    v1alpha1.ConditionInUse,
		Status:  metav1.ConditionFalse,
		Reason:  v1alpha1.ReasonNotReferenced,
		Message: "no pod and no workload uses this ResourceLimit",
	}
	if !u.referenced() {
		return c
	}
	c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonReferenced, holders(u.Pods, workloads)
	if limit.DeletionTimestamp != nil {
		c.Reason = v1alpha1.ReasonDeletionBlocked
		c.Message = fmt.Sprintf("it is not deleted while it is in use: %s; the annotation %s: \"true\" deletes it nevertheless",
			c.Message, v1alpha1.ForceDeleteAnnotation)
	}
	return c
}

// holders describes the users of a limit.
func holders(pods int, workloads []v1alpha1.WorkloadReference) string {
	names := make([]string, 0, named)
	for _, w := range workloads[:min(len(workloads), named)] {
		names = append(names, fmt.Sprintf("%s %s/%s", w.Kind, w.Namespace, w.Name))
	}
	text := fmt.Sprintf("%s of %s", count(pods, "pod"), strings.Join(names, ", "))
	if more := len(workloads) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// verdict is what has to be done with a limit in addition to its status.
type verdict int

const (
	// keep: nothing.
	keep verdict = iota
	// guard: the finalizer is missing.
	guard
	// release: it is being deleted, and nothing uses it.
	release
	// force: it is being deleted although it is in use.
	force
)

// decide is a pure function.
func decide(limit *v1alpha1.ResourceLimit, referenced bool) verdict {
	guarded := slices.Contains(limit.Finalizers, v1alpha1.ResourceLimitFinalizer)
	switch {
	case limit.DeletionTimestamp == nil && !guarded:
		return guard
	case limit.DeletionTimestamp == nil || !guarded:
		return keep
	case !referenced:
		return release
	case limit.Annotations[v1alpha1.ForceDeleteAnnotation] == "true":
		return force
	}
	return keep
}
