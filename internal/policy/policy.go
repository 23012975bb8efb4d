// SPDX-License-Identifier: Apache-2.0

// Package policy decides which mix governs a pod: from annotations, from the
// CapacityMix resources of its namespace, or from the configured default. Its
// decisions are functions of the objects passed in; it reads no API.
package policy

import (
	"time"

	"berth.dev/berth/internal/capacity"
	"berth.dev/berth/internal/mix"
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
	Mix    mix.Mix
	// BorrowOnDemand lets a pod with a spot slot run on on-demand when spot has
	// no room for it, SpotWait after it was first found so.
	BorrowOnDemand bool
	SpotWait       time.Duration
	// BorrowSpot lets a pod with an on-demand slot run on spot when on-demand
	// has no room for it. This can break the floor; it is never a default.
	BorrowSpot bool
	// SpreadSpotOver are the node labels whose values name an interruption
	// domain; nil means the scheduler's configured ones.
	SpreadSpotOver []string
}

// MayBorrow reports whether a pod whose slot is of type t may run on the other
// type when its own has no room, and how long it has to wait before.
func (p *Policy) MayBorrow(t capacity.Type) (wait time.Duration, allowed bool) {
	if t == capacity.Spot {
		return p.SpotWait, p.BorrowOnDemand
	}
	return 0, p.BorrowSpot
}
