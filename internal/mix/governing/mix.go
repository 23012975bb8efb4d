// SPDX-License-Identifier: Apache-2.0

// Package governing determines which mix governs a pod: from annotations, from the CapacityMix resources of its namespace,
// or from the configured default. Its decisions are functions of the objects that are passed in. It reads no API.
package governing

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/domains"
	"berth.dev/berth/internal/mix/split"
)

// Sources of a mix, as in the pod's annotation berth.dev/mix. A CapacityMix is SourceCapacityMix + its name.
const (
	SourcePod         = "annotations/pod"
	SourceController  = "annotations/controller"
	SourceCapacityMix = "capacitymix/"
	SourceDefault     = "default"
)

// Mix is the mix that governs a group, and what happens if its nodes have no free capacity.
type Mix struct {
	// Source is where the mix comes from, see the Source constants.
	Source string
	Mix    split.Mix
	// BorrowOnDemand allows a pod with a spot slot to run on on-demand if spot has no free capacity, SpotWait after
	// this was first observed.
	BorrowOnDemand bool
	SpotWait       time.Duration
	// GatedSpotWait is the same for a pod with the scheduling gate, for which an autoscaler may launch a node.
	GatedSpotWait time.Duration
	// BorrowSpot allows a pod with an on-demand slot to run on spot if on-demand has no free capacity. This can violate
	// minOnDemand, so it is never a default.
	BorrowSpot bool
	// SpreadSpotOver are the node labels whose values identify an interruption domain. Nil means those of the
	// scheduler's configuration.
	SpreadSpotOver []string
	// AvoidInterrupted keeps pods with spot slots off the spot nodes of interruption domains in quarantine, where others are left.
	AvoidInterrupted bool
	// MaxPerDomain limits how many replicas of a group are in one domain. It is shared and must not be changed.
	MaxPerDomain []domains.Limit
	// RespectCosts is set where other clients decide the deletion costs of the pods, and Berth writes none.
	RespectCosts bool
	// ProtectFloor keeps evictions from leaving fewer than minOnDemand replicas on on-demand.
	ProtectFloor bool
	// Strategy is spec.rebalance.strategy of the CapacityMix, "" for that of the controller's configuration.
	Strategy v1alpha1.RebalanceStrategy
	// Tolerations are added to the pods of a type. They are shared and must not be changed.
	Tolerations map[capacity.Type][]corev1.Toleration
	// Grouping is which pods form one group, Unit which of them hold one slot together.
	Grouping Grouping
	Unit     Unit
	// Roles are rules for some of the pods, in order. They are shared and must not be changed.
	Roles []Role
	// RoleName is set in the mix of a role.
	RoleName string
	// UID is that of the CapacityMix, "" for a mix from elsewhere.
	UID types.UID
	// Window limits when replicas are moved, for a mix in annotations. Nil means at any time.
	Window *Window
}

// CapacityMix is the name of the CapacityMix that the mix is from, "" for a mix from elsewhere.
func (m *Mix) CapacityMix() string {
	name, is := strings.CutPrefix(m.Source, SourceCapacityMix)
	if !is {
		return ""
	}
	return name
}

// Same reports whether another mix, which may be nil, gives the same replicas to the same types at the same times. A group by name has
// its mix in annotations of pods and of controllers alike.
func (m *Mix) Same(o *Mix) bool {
	return o != nil && (m.Source == o.Source || m.Grouping.By == ByName) && m.RoleName == o.RoleName && m.Mix == o.Mix &&
		m.Grouping == o.Grouping && m.Unit == o.Unit && ptr.Equal(m.Window, o.Window)
}

// Window is a window in annotations, as they have it. The package rebalance parses it, because only moves depend on it. An
// annotation that is not set is empty, and a long one truncated: both are invalid then.
type Window struct {
	// Schedule has five cron fields in UTC, and Duration is in the format of Go, such as 2h.
	Schedule, Duration string
	// Annotations names both, for messages.
	Annotations string
}

// DefaultGatedSpotWait is longer than autoscalers take to launch a node, or to determine that they cannot.
const DefaultGatedSpotWait = 15 * time.Minute

// SpotWaits returns how long pods without and with the gate wait for spot, by the optional field spotWaitSeconds.
func SpotWaits(seconds *int32) (wait, gated time.Duration) {
	if seconds == nil {
		return 0, DefaultGatedSpotWait
	}
	wait = time.Duration(*seconds) * time.Second
	return wait, wait
}

// MayBorrow reports whether a pod whose slot is of type t may run on the other type if its own has no free capacity,
// and how long it has to wait first.
func (m *Mix) MayBorrow(t capacity.Type) (wait time.Duration, allowed bool) {
	if t == capacity.Spot {
		return m.SpotWait, m.BorrowOnDemand
	}
	return 0, m.BorrowSpot
}

// WithoutBorrowing returns the mix of a pod that may run on one type only.
func (m *Mix) WithoutBorrowing() *Mix {
	final := *m
	final.BorrowOnDemand, final.BorrowSpot = false, false
	return &final
}
