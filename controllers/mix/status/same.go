// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// sameStatus is equality.Semantic.DeepEqual for statuses. It is called after every
// event and does without reflection.
func sameStatus(a, b *v1alpha1.CapacityMixStatus) bool {
	return a.ObservedGeneration == b.ObservedGeneration && a.WorkloadCount == b.WorkloadCount && a.SatisfiedCount == b.SatisfiedCount &&
		same(a.Desired, b.Desired) && same(a.Actual, b.Actual) &&
		slices.EqualFunc(a.Conditions, b.Conditions, sameCondition) && slices.EqualFunc(a.Workloads, b.Workloads, sameWorkload)
}

// same compares what is behind two pointers.
func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

func sameCondition(a, b metav1.Condition) bool {
	if !a.LastTransitionTime.Equal(&b.LastTransitionTime) {
		return false
	}
	a.LastTransitionTime = b.LastTransitionTime // one moment can be written in many ways
	return a == b
}

func sameWorkload(a, b v1alpha1.WorkloadMix) bool {
	if !a.MixNotSatisfiedSince.Equal(b.MixNotSatisfiedSince) || !a.RetryTime.Equal(b.RetryTime) || !same(a.Blocked, b.Blocked) {
		return false
	}
	a.MixNotSatisfiedSince, a.RetryTime, a.Blocked = b.MixNotSatisfiedSince, b.RetryTime, b.Blocked
	return a == b
}
