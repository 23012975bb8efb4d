// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"time"

	"berth.dev/berth/apis/v1alpha1"
)

const (
	// ReasonCountsAsFailure means that the owner counts an evicted pod as failed, as a Job does by default.
	ReasonCountsAsFailure Reason = "CountsAsFailure"
	// ReasonFixedNode means that the pod template names a node, so no scheduler places a replacement.
	ReasonFixedNode Reason = "FixedNode"
	// ReasonMaxUnavailable means that a rollout has as many unavailable replicas as its strategy allows.
	ReasonMaxUnavailable Reason = "MaxUnavailable"
)

func countsAsFailure(in *Input) (Verdict, bool) {
	if in.Group.CountsFailures {
		return stop(ReasonCountsAsFailure, time.Time{}, "restartPolicy is not Always, so an evicted pod counts as failed "+
			"(a Job whose podFailurePolicy ignores disruptions opts in with the annotation %s: \"true\")", v1alpha1.EvictJobPodsAnnotation)
	}
	return Verdict{}, false
}

func fixedNode(in *Input) (Verdict, bool) {
	if in.Group.FixedNode != "" {
		return stop(ReasonFixedNode, time.Time{}, "the pod template names node %s, so a replacement runs there again", in.Group.FixedNode)
	}
	return Verdict{}, false
}

// atMaxUnavailable is for rollouts that make no progress: the replicas of the old revision, all Ready, carry the load alone.
func atMaxUnavailable(in *Input) (Verdict, bool) {
	r := in.Group.Rollout
	if r.Rolling && r.Unavailable > 0 && r.Unavailable >= r.MaxUnavailable {
		return stop(ReasonMaxUnavailable, time.Time{}, "%d replicas are unavailable in a rollout, and its maxUnavailable is %d",
			r.Unavailable, r.MaxUnavailable)
	}
	return Verdict{}, false
}
