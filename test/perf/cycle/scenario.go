// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
)

// Scenario is the cluster and the pods that a peer has to place.
type Scenario struct {
	// Nodes of the cluster.
	Nodes int `json:"nodes"`
	// OnDemandPerMille of the nodes are on-demand, the others spot.
	OnDemandPerMille int `json:"onDemandPerMille"`
	// Groups are the workloads, each with pods of its own ReplicaSet.
	Groups int `json:"groups"`
	// Block places one group after the other, not one pod of each in turn.
	Block bool `json:"block,omitempty"`
	// Existing pods are bound before the first is placed.
	Existing int `json:"existing,omitempty"`
	// Pods are all that can be placed, over all turns.
	Pods int `json:"pods"`
	// Full leaves no free capacity on on-demand nodes.
	Full bool `json:"full,omitempty"`
	// Ungoverned pods have no mix.
	Ungoverned bool `json:"ungoverned,omitempty"`
	// Limits is how many ResourceLimits there are, of which each pod names one.
	Limits int `json:"limits,omitempty"`
	// Replicated pods are those of a ReplicaSet, for which kube-scheduler counts all
	// pods of the cluster to spread them over zones and nodes, its default. The
	// others are those of a Job, for which it does not.
	Replicated bool `json:"replicated,omitempty"`
	// Policy is the preset of the SchedulingPolicy that governs all pods, for peers that have one.
	Policy v1alpha1.ScorePreset `json:"policy,omitempty"`
	// Varied pods request between 100m and 1 CPU, not all for the same.
	Varied bool `json:"varied,omitempty"`
}

// rule is the mix of all groups. Its share is that of the nodes, so that a peer
// without a mix has the same capacity.
var rule = split.New(80, 0)

// Who takes part.
const (
	// Stock is kube-scheduler as it comes (P0).
	Stock = "P0"
	// Stock134 and HardSpread134 are kube-scheduler 1.34, as P0 and P1.
	Stock134      = Stock + referenceSuffix
	HardSpread134 = HardSpread + referenceSuffix
	// HardSpread is kube-scheduler with a hard topology spread over five values of a label (P1).
	HardSpread = "P1"
	// SoftSpread is the same, preferred (P2).
	SoftSpread = "P2"
	// Affinity is kube-scheduler with the type in the node affinity of each pod, as an admission webhook writes it (P3).
	Affinity = "P3"
	// FewNodes is kube-scheduler that looks at 100 nodes, or 1 % of them, in place of its default (P5).
	FewNodes = "P5"
	// Batching is kube-scheduler without default spreading constraints (P6): with them it signs no pod, and without a
	// signature it reuses nothing of the pod before.
	Batching = "P6"
	// Floor is the same cycle with no plugin but one that names the node (L1).
	Floor = "L1"
	// Berth16 and the others are Berth with its profile as shipped and a sample of so many nodes.
	Berth16  = "berth-16"
	Berth32  = "berth-32"
	Berth100 = "berth-100"
	// BerthAll is Berth without a sample.
	BerthAll = "berth-all"
	// BerthBatching is Berth16 without default spreading constraints, as Batching.
	BerthBatching = "berth-16-batching"
	// BerthPolicy is Berth16 with a SchedulingPolicy, if the scenario has one.
	BerthPolicy = "berth-16-policy"
	// BerthSelector is Berth16 with a mix that takes the pods of all workloads for one group.
	BerthSelector = "berth-16-selector"
	// BerthNoPolicies and BerthNoReservations are Berth16 without the plugin SchedulingPolicy or Reservation in its profile.
	BerthNoPolicies     = "berth-16-no-policies"
	BerthNoReservations = "berth-16-no-reservations"
)
