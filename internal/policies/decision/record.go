// SPDX-License-Identifier: Apache-2.0

// Package decision keeps records of scheduling attempts in memory: the nodes that were candidates, their scores, and why
// the others were rejected.
//
// A full Store takes less than 96 MiB of the heap if every record has 50 candidates with names of 63 characters, and less than
// 320 MiB if every string and list of every record is at its bound.
package decision

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Record is what the scheduler decided in one attempt to schedule a pod. The scheduler serves it as JSON.
type Record struct {
	// ID identifies the attempt in events: "<first 8 characters of the pod's UID>-<time in milliseconds, base 36>".
	ID        string    `json:"id"`
	Time      time.Time `json:"time"`
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	UID       types.UID `json:"uid"`
	// SchedulerName is the profile.
	SchedulerName string `json:"schedulerName"`
	// Policy is the name of the SchedulingPolicy in the pod's namespace, empty for the rules of the profile.
	Policy string `json:"policy,omitempty"`
	// Outcome is what became of the attempt.
	Outcome Outcome `json:"outcome"`
	// Message is the reason of an outcome other than Bound.
	Message string `json:"message,omitempty"`
	// Feasible is the number of nodes that passed all filters, of those that were tried.
	Feasible int `json:"feasible"`
	// Rejections are the reasons for which nodes were rejected, the most frequent first. Of a pod that has a node they are
	// recorded if all its attempts are.
	Rejections []Rejection `json:"rejections,omitempty"`
	// Functions are the score functions, by priority.
	Functions []Function `json:"functions,omitempty"`
	// Candidates are the best nodes, the selected one first.
	Candidates []Candidate `json:"candidates,omitempty"`
	// Node is the selected node.
	Node string `json:"node,omitempty"`
	// TieBreaker selected the node among Tied nodes with the highest score.
	TieBreaker string `json:"tieBreaker,omitempty"`
	Tied       int    `json:"tied,omitempty"`
	// Reservation is the name of the Reservation whose capacity the pod was to use.
	Reservation string `json:"reservation,omitempty"`
	// Expires is when the Store drops the record. Put sets it.
	Expires time.Time `json:"-"`
}

// Outcome is what became of a scheduling attempt.
type Outcome string

const (
	// Reserved means that a node is selected, and the pod is being bound to it.
	Reserved Outcome = "Reserved"
	// Bound means that the pod was bound to the node.
	Bound Outcome = "Bound"
	// Unschedulable means that no node was feasible.
	Unschedulable Outcome = "Unschedulable"
	// BindFailed means that the pod was not bound to the selected node.
	BindFailed Outcome = "BindFailed"
)

// Function is a score function and its weight.
type Function struct {
	Name        string  `json:"name"`
	Priority    int32   `json:"priority"`
	Coefficient float64 `json:"coefficient"`
}

// Candidate is a feasible node.
type Candidate struct {
	Node string `json:"node"`
	// Score is the sum of Values times the coefficients of the functions.
	Score float64 `json:"score"`
	// Values are the values of the functions, from 0 to 100, in their order.
	Values []float64 `json:"values"`
	// Demoted is why the node ranks below all that are not demoted, whatever its score; empty for most nodes.
	Demoted string `json:"demoted,omitempty"`
}

// Rejection is a reason for which nodes were rejected.
type Rejection struct {
	Reason Reason `json:"reason"`
	// Nodes is the number of nodes.
	Nodes int `json:"nodes"`
	// Example is one of the nodes.
	Example string `json:"example"`
	// Message is the filter's own, of the example.
	Message string `json:"message"`
	// Key is the key of the taint of TaintWithoutToleration.
	Key string `json:"key,omitempty"`
	// Requested is what the pod requests of the resource of an Insufficient reason, and Available the most that one of the
	// nodes has.
	Requested string `json:"requested,omitempty"`
	Available string `json:"available,omitempty"`
}

// Reason is the class of a rejection.
type Reason string

// The reasons for which a node is rejected.
const (
	InsufficientCPU          Reason = "InsufficientCpu"
	InsufficientMemory       Reason = "InsufficientMemory"
	InsufficientDisk         Reason = "InsufficientDisk"
	NodeSelectorMismatch     Reason = "NodeSelectorMismatch"
	NodeAffinityMismatch     Reason = "NodeAffinityMismatch"
	TaintWithoutToleration   Reason = "TaintWithoutToleration"
	PodAffinityViolation     Reason = "PodAffinityViolation"
	PodAntiAffinityViolation Reason = "PodAntiAffinityViolation"
	TopologySpreadViolation  Reason = "TopologySpreadViolation"
	NodeNotReady             Reason = "NodeNotReady"
	NodeUnschedulable        Reason = "NodeUnschedulable"
	Custom                   Reason = "Custom"
)
