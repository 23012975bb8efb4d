// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
)

// move is a move with its steps, by the slot of its replacement, nil for none.
func (a *attempt) move(w *Workload, s *Slot, now time.Time) Move {
	m := Move{Pod: a.of.Pod, From: a.of.From, To: a.of.To}
	for i := range m.Steps {
		m.Steps[i] = MoveStep{Name: stepNames[i], State: StepAhead}
	}
	m.Steps[stepDecided] = a.decided()
	if a.moved == nil {
		a.unmoved(&m, w)
	} else {
		m.Steps[stepProven] = MoveStep{
			Name: stepNames[stepProven], State: StepDone, Time: a.of.Proven, Node: a.of.Node, Type: a.of.To,
			Text: "The filters of the scheduler accept the replacement on this node.",
		}
		m.Steps[stepEvicted] = MoveStep{
			Name: stepNames[stepEvicted], State: StepDone, Time: a.moved.Time, Node: a.of.FromNode, Type: a.of.From,
		}
		a.released(&m)
		a.replaced(&m, s, now)
	}
	for m.At < moveSteps-1 && m.Steps[m.At].State == StepDone {
		m.At++
	}
	a.end(&m)
	m.Key = fmt.Sprintf("%d %s", a.earlier, a.of.UID)
	return m
}

// released changes the steps of a replica that is evicted once its replacement is available.
func (a *attempt) released(m *Move) {
	if a.moved.Reason != v1alpha1.EventReasonReleased {
		return
	}
	m.Steps[stepEvicted].Text = "It was released from its ReplicaSet, and runs until the replacement is available."
	if proven := &m.Steps[stepProven]; a.of.Node == "" {
		*proven = MoveStep{Name: proven.Name, State: StepDone, Time: a.moved.Time, Node: a.of.FromNode, Type: a.of.From}
		proven.Text = "This node departs: the replica does not wait for free capacity."
	}
}

// decided is why the replica moves.
func (a *attempt) decided() MoveStep {
	s := MoveStep{Name: stepNames[stepDecided], State: StepDone, Time: a.of.Decided}
	if a.of.Slot != nil {
		s.Text = fmt.Sprintf("The replacement takes slot %d, which requires %s. ", *a.of.Slot, a.of.To)
	}
	if !a.of.Since.IsZero() {
		s.Text += fmt.Sprintf("The mix was not satisfied since %s. ", a.of.Since.UTC().Format("15:04:05 UTC"))
	}
	s.Text = strings.TrimSpace(s.Text)
	return s
}

// unmoved are the steps of a replica of which no eviction is reported: a placeholder requests the capacity, or nothing is known but that
// the move failed.
func (a *attempt) unmoved(m *Move, w *Workload) {
	proven := &m.Steps[stepProven]
	if a.provisioned == nil {
		proven.State, proven.Time = StepUnknown, a.of.Proven
		return
	}
	proven.State, proven.Time, proven.Text, proven.Pod = StepNow, a.provisioned.Time, a.provisioned.Message, a.of.Placeholder
	if !slices.ContainsFunc(w.Slots, func(s Slot) bool { return slices.Contains(s.PodNames(), a.of.Pod) && s.State != InPlace }) {
		proven.State, proven.Text = StepUnknown, "The replica does not have to move any more."
	}
}

// replaced are the steps after the eviction.
func (a *attempt) replaced(m *Move, s *Slot, now time.Time) {
	replaced, bound, available := &m.Steps[stepReplaced], &m.Steps[stepBound], &m.Steps[stepAvailable]
	switch {
	case s == nil:
		replaced.State, replaced.Text = StepUnknown, "The pod that replaced it is not there any more."
		return
	case s.State == NoPod:
		replaced.State, replaced.Text = StepNow, "The next pod is not created yet."
		return
	}
	replaced.State, replaced.Time, replaced.Pod = StepDone, s.Arrival.Created, s.Pod
	replaced.Text = fmt.Sprintf("It has slot %d.", s.Slot)
	if s.Node == "" || s.State == Pending {
		bound.State, bound.Text = StepNow, s.Reason
		return
	}
	bound.State, bound.Time, bound.Node, bound.Type = StepDone, s.Arrival.Bound, s.Node, s.NodeType
	switch {
	case s.NodeType == "":
		bound.Text = "The type of the node is unknown: you may not list nodes."
	case s.State == Borrowed && s.NodeType != m.To && m.To != "" && m.To != capacity.Unknown.String():
		bound.State, bound.Text = StepFailed, "This is the wrong type: "+s.Reason+"."
	}
	switch at := s.Arrival.Available; {
	case at.IsZero():
		available.State, available.Text = StepNow, cmp.Or(s.Arrival.Lacks, "The pod is not Ready yet.")
	case at.After(now):
		available.State, available.Text = StepNow, "The pod is Ready, and available at "+at.UTC().Format("15:04:05 UTC")+" (minReadySeconds)."
	default:
		available.State, available.Time = StepDone, at
	}
}

// end ends a move that is over.
func (a *attempt) end(m *Move) {
	at := &m.Steps[m.At]
	switch {
	case a.failed != nil:
		at.State, at.Text, m.Ended = StepFailed, a.failed.Message, a.failed.Time
	case at.State == StepDone:
		m.Ended = at.Time
	case at.State == StepFailed: // until the controller judges it
		m.Ended = m.Steps[stepAvailable].Time
	case at.State == StepUnknown && a.moved != nil:
		m.Ended = a.moved.Time
	case at.State == StepUnknown:
		m.Ended = at.Time
	}
}
