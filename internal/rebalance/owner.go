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
