// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/policies/registry"
)

// maxMessage is the length that the API allows a condition's message.
const maxMessage = 1024

// compose returns the status of a policy. It is a pure function: the same state gives the same status.
func compose(policy *v1alpha1.SchedulingPolicy, u usage, now time.Time) v1alpha1.SchedulingPolicyStatus {
	s := v1alpha1.SchedulingPolicyStatus{
		ObservedGeneration: policy.Generation,
		Conditions:         slices.Clone(policy.Status.Conditions),
		PodCount:           int32(min(max(u.pods, 0), math.MaxInt32)),
	}
	c := accepted(u)
	c.ObservedGeneration, c.LastTransitionTime = policy.Generation, metav1.NewTime(now)
	c.Message = applyset.Shorten(c.Message, maxMessage)
	meta.SetStatusCondition(&s.Conditions, c)
	return s
}

// accepted is the condition that the policy governs the pods that it selects.
func accepted(u usage) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse}
	switch {
	case u.policy.Err != nil:
		c.Reason, c.Message = v1alpha1.ReasonInvalid, u.policy.Err.Error()
	case u.tooMany:
		c.Reason = v1alpha1.ReasonTooMany
		c.Message = budget.Exceeded("SchedulingPolicies", registry.MaxPerNamespace)
	case u.older != "":
		c.Reason = v1alpha1.ReasonConflict
		c.Message = "pods that spec.podSelector selects are governed by an older SchedulingPolicy: " + u.older
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonAccepted, "the policy governs all pods that it selects"
	}
	return c
}
