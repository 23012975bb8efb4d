// SPDX-License-Identifier: Apache-2.0

// Package policy decides which mix governs a pod: from annotations, from the
// CapacityMix resources of its namespace, or from the configured default. Its
// decisions are functions of the objects passed in; it reads no API.
package policy

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
)

// Sources of a policy, as they stand in the pod's berth.dev/mix annotation.
// A CapacityMix is named: SourceCapacityMix + its name.
const (
	SourcePod         = "annotations/pod"
	SourceController  = "annotations/controller"
	SourceCapacityMix = "capacitymix/"
	SourceDefault     = "default"
)

// Policy is the mix of a group and what to do where its nodes have no room.
type Policy struct {
	// Source says where the policy comes from, see the Source constants.
	Source string
	Mix    split.Mix
	// BorrowOnDemand lets a pod with a spot slot run on on-demand when spot has
	// no room for it, SpotWait after it was first found so.
	BorrowOnDemand bool
	SpotWait       time.Duration
	// GatedSpotWait is the same for a pod with the scheduling gate, which an
	// autoscaler may launch a node for.
	GatedSpotWait time.Duration
	// BorrowSpot lets a pod with an on-demand slot run on spot when on-demand
	// has no room for it. This can break the floor; it is never a default.
	BorrowSpot bool
	// SpreadSpotOver are the node labels whose values name an interruption
	// domain; nil means the scheduler's configured ones.
	SpreadSpotOver []string
	// Tolerations are added to the pods of a type; shared, must not be changed.
	Tolerations map[capacity.Type][]corev1.Toleration
}

// DefaultGatedSpotWait is longer than autoscalers take to launch a node or to
// find out that they cannot.
const DefaultGatedSpotWait = 15 * time.Minute

// SpotWaits returns how long pods without and with the gate wait for spot, by
// the optional field spotWaitSeconds.
func SpotWaits(seconds *int32) (wait, gated time.Duration) {
	if seconds == nil {
		return 0, DefaultGatedSpotWait
	}
	wait = time.Duration(*seconds) * time.Second
	return wait, wait
}

// MayBorrow reports whether a pod whose slot is of type t may run on the other
// type when its own has no room, and how long it has to wait before.
func (p *Policy) MayBorrow(t capacity.Type) (wait time.Duration, allowed bool) {
	if t == capacity.Spot {
		return p.SpotWait, p.BorrowOnDemand
	}
	return 0, p.BorrowSpot
}
