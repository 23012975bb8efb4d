// SPDX-License-Identifier: Apache-2.0

package clusterstate

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// jobEnded reports whether a Job makes no more pods: it is complete, failed, about to be one of these, or suspended.
func jobEnded(o *batchv1.Job) bool {
	if o.Spec.Suspend != nil && *o.Spec.Suspend {
		return true
	}
	for _, c := range o.Status.Conditions {
		switch c.Type {
		case batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet:
			if c.Status == corev1.ConditionTrue {
				return true
			}
		}
	}
	return false
}

// toleratesEvictions reports whether an evicted pod does not count as failed, and the Job's owner opted in. Both are needed: a
// policy that ignores disruptions keeps the Job alive, and only its owner can decide whether the lost work may be repeated.
func toleratesEvictions(o *batchv1.Job) bool {
	return o.Annotations[v1alpha1.EvictJobPodsAnnotation] == "true" && IgnoresDisruptions(o.Spec.PodFailurePolicy)
}

// IgnoresDisruptions reports whether a policy ignores an evicted pod whatever its exit code. The first rule that matches
// decides, so no rule with another action may come before the one for disruptions.
func IgnoresDisruptions(p *batchv1.PodFailurePolicy) bool {
	if p == nil {
		return false
	}
	for _, rule := range p.Rules {
		if rule.Action != batchv1.PodFailurePolicyActionIgnore {
			return false
		}
		for _, c := range rule.OnPodConditions {
			if c.Type == corev1.DisruptionTarget && (c.Status == corev1.ConditionTrue || c.Status == "") {
				return true
			}
		}
	}
	return false
}

// jobReplicas is how many pods a Job runs at present, -1 where its status does not have it.
func jobReplicas(o *batchv1.Job) int {
	if o.Spec.Completions == nil || o.Status.FailedIndexes != nil {
		return -1
	}
	succeeded := int(o.Status.Succeeded)
	if u := o.Status.UncountedTerminatedPods; u != nil {
		succeeded += len(u.Succeeded)
	}
	return max(0, min(replicas(o.Spec.Parallelism), int(*o.Spec.Completions)-succeeded))
}
