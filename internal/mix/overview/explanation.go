// SPDX-License-Identifier: Apache-2.0

package overview

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/policies/decision"
)

// Explanation is what `explain` shows.
type Explanation struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Governed is set where a mix decides about the pod's place; Why is why not, or what limits it.
	Governed bool           `json:"governed"`
	Why      []string       `json:"why,omitempty"`
	Mix      *MixFacts      `json:"mix,omitempty"`
	Workload *WorkloadFacts `json:"workload,omitempty"`
	// Group is why the pod is in the group of its workload, and its unit.
	Group *GroupFacts `json:"group,omitempty"`
	// Gate is what became of the pod's scheduling gate, nil for a pod that was made without it.
	Gate *GateFacts `json:"gate,omitempty"`
	Slot *SlotFacts `json:"slot,omitempty"`
	// Domains are the limits of replicas in one domain, as they are for the pod.
	Domains []DomainFacts `json:"domains,omitempty"`
	// Interrupted is which interruption domains the pod avoids, nil for a pod whose mix does not require that.
	Interrupted *InterruptedFacts `json:"interrupted,omitempty"`
	Node        *NodeFacts        `json:"node,omitempty"`
	Borrowed    *BorrowFacts      `json:"borrowed,omitempty"`
	Pending     *PendingFacts     `json:"pending,omitempty"`
	Move        *MoveFacts        `json:"move,omitempty"`
	// Limit is the pod's ResourceLimit, nil if it has none.
	Limit *LimitFacts `json:"limit,omitempty"`
	// Deletion describes when a scale-down removes the pod.
	Deletion string `json:"deletion,omitempty"`
	// Decisions are records of scheduling attempts, newest first, if they were requested.
	Decisions []*decision.Record `json:"decisions,omitempty"`
	// DecisionsUnread is set if they could not be read: there may be some.
	DecisionsUnread bool `json:"-"`
}

// Decision is the record of a scheduling attempt.
type Decision = decision.Record

// MixFacts are where a pod's mix comes from.
type MixFacts struct {
	Source string `json:"source"`
	Rule   string `json:"rule"`
	// InvalidAnnotations could not be read and do not count.
	InvalidAnnotations []string `json:"invalidAnnotations,omitempty"`
}

// WorkloadFacts are the state of the pod's group.
type WorkloadFacts struct {
	Name     string `json:"name"`
	Replicas int    `json:"replicas"`
	Desired  Split  `json:"desired"`
	// Actual and Satisfied are null where they are unknown.
	Actual    Maybe[Split] `json:"actual"`
	Satisfied Maybe[bool]  `json:"satisfied"`
	// state is why it is not satisfied.
	state string
}

// SlotFacts are the pod's slot.
type SlotFacts struct {
	Number int    `json:"number"`
	Type   string `json:"type"`
	// From is the origin of the slot: annotation, identity, scheduler (the slot that it tried last) or count; gate, the origin to come.
	From string `json:"from"`
}

// NodeFacts are what the pod's node is.
type NodeFacts struct {
	Name string `json:"name"`
	// Type is null where the nodes could not be read; "unknown" is a type that a node can have.
	Type      Maybe[string] `json:"type"`
	Rule      string        `json:"rule,omitempty"`
	Label     string        `json:"label,omitempty"`
	Domain    string        `json:"domain,omitempty"`
	Departing string        `json:"departing,omitempty"`
}

// BorrowFacts are why a pod runs on the other type.
type BorrowFacts struct {
	Since metav1.Time `json:"since"`
	// By is Event, or PodStart where there is no event any more.
	By  string `json:"by"`
	Why string `json:"why"`
}

// PendingFacts are what a pod waits for.
type PendingFacts struct {
	WaitsFor string `json:"waitsFor,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
}

// MoveFacts are the rebalancer's verdicts.
type MoveFacts struct {
	// WrongSide is set where this pod is one that has to move.
	WrongSide bool `json:"wrongSide"`
	// Departs is set where its node departs: the reason is then that of the workload.
	Departs bool   `json:"departs,omitempty"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Workload is the verdict about the pod's workload as a whole.
	WorkloadReason  string `json:"workloadReason"`
	WorkloadMessage string `json:"workloadMessage,omitempty"`
	// Node has free capacity for the replacement.
	Node string `json:"node,omitempty"`
	// Controller is whether its last report is current, "" where it makes none.
	Controller display.ReportState `json:"controller,omitempty"`
}
