// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/split"
)

// State is the state of the replica of a slot.
type State string

// The states of a slot.
const (
	// InPlace is on a node of the type of the slot.
	InPlace State = "InPlace"
	// Borrowed is on a node of another type.
	Borrowed State = "Borrowed"
	// Departing is on a node that goes away.
	Departing State = "Departing"
	// Pending has a pod without a node.
	Pending State = "Pending"
	// NoPod has no pod yet.
	NoPod State = "NoPod"
	// Unknown is on a node that was not read.
	Unknown State = "Unknown"
)

// maxMissing is how many slots without a pod a workload lists: users set the number of replicas, and it may be two billion.
const maxMissing = 256

// Slot is one slot of a workload with its pod.
type Slot struct {
	Slot int `json:"slot"`
	// Type is the type that the slot requires.
	Type string `json:"type"`
	// Floor is set for the on-demand slots of minOnDemand.
	Floor bool   `json:"floor,omitempty"`
	Pod   string `json:"pod,omitempty"`
	Node  string `json:"node,omitempty"`
	// NodeType is empty where the node is not read; "unknown" is a type that a node can have.
	NodeType string `json:"nodeType,omitempty"`
	State    State  `json:"state"`
	// Reason is why the replica is not in place.
	Reason string `json:"reason,omitempty"`
}

// isFloor reports whether a slot is one of the first minOnDemand on-demand slots.
func isFloor(m split.Mix, slot int) bool {
	return m.TypeOf(slot) == capacity.OnDemand && m.OnDemand(slot+1) <= int(m.MinOnDemand)
}

func (b *builder) slot(p *governing.Mix, a *clusterstate.Assignment) Slot {
	s := Slot{
		Slot: a.Slot, Type: a.Wants.String(), Floor: isFloor(p.Mix, a.Slot), Pod: Inert(a.Pod.Name, maxName),
		Node: Inert(a.Pod.Node, maxName), State: b.stateOf(a),
	}
	if a.Pod.Bound() && !b.Unread.Nodes {
		n := b.node(a.Pod.Node)
		n.pods++
		s.NodeType = n.Type.String()
	}
	switch s.State {
	case Departing:
		s.Reason = "node departs: " + Inert(b.node(a.Pod.Node).Departing, maxName)
	case Borrowed:
		s.Reason = "the slot requires " + s.Type
	case Pending:
		s.Reason = "waits for " + a.On.String()
		if why := b.waits[a.Pod.UID]; why != "" {
			s.Reason += ": " + why
		}
	}
	return s
}

func (b *builder) stateOf(a *clusterstate.Assignment) State {
	switch {
	case a.Place == clusterstate.Pending:
		return Pending
	case b.Unread.Nodes:
		return Unknown
	case a.Place == clusterstate.Departing:
		return Departing
	case a.Borrowed():
		return Borrowed
	}
	return InPlace
}
