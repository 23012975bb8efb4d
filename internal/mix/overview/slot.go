// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
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
	Floor bool `json:"floor,omitempty"`
	// Pod is the oldest pod of the replica, on Node.
	Pod  string `json:"pod,omitempty"`
	Node string `json:"node,omitempty"`
	// NodeType is empty where the node is not read; "unknown" is a type that a node can have.
	NodeType string `json:"nodeType,omitempty"`
	State    State  `json:"state"`
	// Unit is the name of a unit, "" for a pod alone, and Pods are its pods, the oldest first.
	Unit string    `json:"unit,omitempty"`
	Pods []UnitPod `json:"pods,omitempty"`
	// Requests are those of Pod, where the replica is no unit.
	Requests Requests `json:"-"`
	// Reason is why the replica is not in place.
	Reason string `json:"reason,omitempty"`
	// Arrival is when it came.
	Arrival Arrival `json:"-"`
}

// Members are the pods of the replica of a slot: those of a unit, or one.
func (s *Slot) Members() []UnitPod {
	if s.Pods != nil || s.Pod == "" && s.Node == "" {
		return s.Pods
	}
	return []UnitPod{{Pod: s.Pod, Node: s.Node, NodeType: s.NodeType, Requests: s.Requests}}
}

// PodNames are the names of the pods of the replica of a slot.
func (s *Slot) PodNames() (names []string) {
	for _, p := range s.Members() {
		names = append(names, p.Pod)
	}
	return names
}

func (b *builder) slot(p *governing.Mix, a *clusterstate.Assignment) Slot {
	s := Slot{
		Slot: a.Slot, Type: a.Wants.String(), Floor: p.Mix.IsFloor(a.Slot), Pod: display.Inert(a.Pod.Name, maxName),
		Node: display.Inert(a.Pod.Node, maxName), State: b.stateOf(a),
	}
	for i, p := range a.Members() {
		t, requests := b.placed(p), Requests{p.CPU, p.Memory}
		if i == 0 {
			s.NodeType = t
		}
		if a.Unit == "" {
			s.Requests = requests
		} else {
			s.Pods = append(s.Pods, UnitPod{
				Pod: display.Inert(p.Name, maxName), Node: display.Inert(p.Node, maxName), NodeType: t, Requests: requests,
			})
		}
	}
	s.Unit = display.Inert(a.Unit, maxName)
	switch s.State {
	case Departing:
		s.Reason = "node departs: " + b.departure(a)
	case Borrowed:
		s.Reason = "the slot requires " + s.Type
	case Pending:
		s.Reason = "waits for " + a.On.String()
		if why := b.waits.of(a); why != "" {
			s.Reason += ": " + why
		}
	}
	return s
}

// placed counts a pod on its node, and returns the type of the node, "" if it has none or the nodes were not read.
func (b *builder) placed(p *clusterstate.Pod) string {
	if !p.Bound() || b.Unread.Nodes {
		return ""
	}
	n := b.node(p.Node)
	n.pods++
	return n.Type.String()
}

// departure is why the first node of a replica departs that does.
func (b *builder) departure(a *clusterstate.Assignment) string {
	for _, p := range a.Members() {
		if p.Bound() && b.node(p.Node).Departing != "" {
			return display.Inert(b.node(p.Node).Departing, maxName)
		}
	}
	return ""
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
