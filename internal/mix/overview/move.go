// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/rebalance"
)

// MovesFor is how long a move is shown after it ended.
const MovesFor = time.Hour

// MoveEvent is an event about a move of a workload. All texts of it are inert.
type MoveEvent struct {
	Time            time.Time
	Reason, Message string
	// Count is how many events this one combines.
	Count int32
	// Of is the move, nil in an event that combines several, or that an earlier version wrote.
	Of *rebalance.MoveReport
}

// moveReasons are the reasons of events about moves, in the order in which they happen to a move.
var moveReasons = []string{
	v1alpha1.EventReasonProvisioning, v1alpha1.EventReasonMoved, v1alpha1.EventReasonReleased, v1alpha1.EventReasonMoveFailed,
}

// MoveEventOf returns what an event has of a move, false for other events.
func MoveEventOf(e *corev1.Event) (MoveEvent, bool) {
	if !slices.Contains(moveReasons, e.Reason) {
		return MoveEvent{}, false
	}
	entry := EntryOf(e)
	out := MoveEvent{Time: entry.Time.Time, Reason: e.Reason, Message: display.Inert(e.Message, maxMessage), Count: max(1, entry.Count)}
	if r, ok := rebalance.MoveReportOf(e.Annotations[v1alpha1.MoveAnnotation]); ok && out.Count == 1 {
		for _, text := range []*string{&r.Pod, &r.From, &r.FromNode, &r.To, &r.Node, &r.Placeholder} {
			*text = display.Inert(*text, maxName)
		}
		out.Of = &r
	}
	return out, true
}

// MoveStep is a step of a move.
type MoveStep struct {
	Name  string
	State StepState
	// Time is when it was done, zero where that is not recorded.
	Time time.Time
	// Text is what was done, or why the move is not further.
	Text string
	// Pod, Node and Type are those of which the text is.
	Pod, Node, Type string
}

// StepState is whether a step is done.
type StepState string

// The states of steps.
const (
	// StepDone is done, and StepNow is what the move is at.
	StepDone StepState = "done"
	StepNow  StepState = "now"
	// StepAhead comes later.
	StepAhead StepState = "ahead"
	// StepFailed is what failed.
	StepFailed StepState = "failed"
	// StepUnknown may be done.
	StepUnknown StepState = "unknown"
)

// The steps of a move.
const (
	stepDecided = iota
	stepProven
	stepEvicted
	stepReplaced
	stepBound
	stepAvailable
	moveSteps
)

var stepNames = [moveSteps]string{"Decided", "Proven", "Evicted", "Replaced", "Bound", "Available"}

// Move is a move of a replica, from its decision until its replacement is available.
type Move struct {
	Pod, From, To string
	// Key identifies it among the moves of its workload.
	Key   string
	Steps [moveSteps]MoveStep
	// At is the step that it is at, or that it ended with.
	At int
	// Ended is when it ended, zero for one that runs.
	Ended time.Time
}

// Failed reports whether the move failed.
func (m *Move) Failed() bool { return m.Steps[m.At].State == StepFailed }

// Runs reports whether the move is not over.
func (m *Move) Runs() bool { return m.Ended.IsZero() }

// Moves are those of a workload that run, or ended in the last hour, the newest first.
type Moves struct {
	All []Move
	// Combined is how many further ones the API server has in events that combine several.
	Combined int
}

// Running is how many of the moves are not over.
func (m *Moves) Running() (n int) {
	for i := range m.All {
		if m.All[i].Runs() {
			n++
		}
	}
	return n
}

// attempt is a move as its events have it.
type attempt struct {
	of rebalance.MoveReport
	// earlier is how many attempts there were before with the same replica.
	earlier int
	// provisioned, moved and failed are its events, nil for those that there are not.
	provisioned, moved, failed *MoveEvent
}

// MovesOf are the moves of a workload: what the controller reported of each in events, and what came of it by the slots.
func MovesOf(w *Workload, events []MoveEvent, now time.Time) *Moves {
	attempts, combined := attemptsOf(w, events)
	out := &Moves{Combined: combined}
	claimed := map[int]bool{}
	for i := len(attempts) - 1; i >= 0; i-- { // what came after the last move came after those before it, too
		a := &attempts[i]
		m := a.move(w, replacementOf(w, a, claimed), now)
		if m.Runs() || m.Ended.After(now.Add(-MovesFor)) {
			out.All = append(out.All, m)
		}
	}
	return out
}

// attemptsOf are the moves that events are about, the oldest first, and the number of those that are not known one by one.
func attemptsOf(w *Workload, events []MoveEvent) (attempts []attempt, combined int) {
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b MoveEvent) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(slices.Index(moveReasons, a.Reason), slices.Index(moveReasons, b.Reason)))
	})
	last := map[types.UID]int{} // places in the list
	for i := range sorted {
		e := &sorted[i]
		switch {
		case e.Of == nil && (e.Reason == v1alpha1.EventReasonMoved || e.Reason == v1alpha1.EventReasonReleased):
			combined += int(e.Count)
			continue
		case e.Of == nil, e.Of.Revision != w.Revision, e.Of.Role != w.Role:
			continue
		}
		at, known := last[e.Of.UID]
		if next := (attempt{of: *e.Of}); !known || attempts[at].failed != nil {
			if known {
				next.earlier = attempts[at].earlier + 1
			}
			at = len(attempts)
			attempts = append(attempts, next)
			last[e.Of.UID] = at
		}
		attempts[at].add(e)
	}
	return attempts, combined
}

// add adds an event to what is known of a move. The eviction has the most.
func (a *attempt) add(e *MoveEvent) {
	switch e.Reason {
	case v1alpha1.EventReasonProvisioning:
		a.provisioned = e
	case v1alpha1.EventReasonMoved, v1alpha1.EventReasonReleased:
		a.moved, a.of = e, *e.Of
	default:
		a.failed = e
	}
}

// replacementOf is the slot of the replacement of a replica that was evicted, nil if none is known: that of its name, as a StatefulSet has
// it, the slot that it was to claim, or the first that came and that no other move claims. Its pod may not be there yet.
func replacementOf(w *Workload, a *attempt, claimed map[int]bool) *Slot {
	if a.moved == nil {
		return nil
	}
	began, found, best := cmp.Or(a.of.Proven, a.moved.Time).Truncate(time.Second), -1, 0
	for i := range w.Slots {
		s := &w.Slots[i]
		if claimed[i] || s.State != NoPod && s.Arrival.Created.Before(began) {
			continue
		}
		rank := a.rank(s)
		if rank > best || rank == best && s.Arrival.Created.Before(w.Slots[found].Arrival.Created) {
			found, best = i, rank
		}
	}
	if found < 0 {
		return nil
	}
	claimed[found] = true
	return &w.Slots[found]
}

// rank is how well a slot fits as that of the replacement. One that waits for its pod fits better than another one's pod.
func (a *attempt) rank(s *Slot) int {
	own := a.of.Slot != nil && s.Slot == *a.of.Slot
	switch {
	case s.Pod != "" && s.Pod == a.of.Pod:
		return 5
	case s.State != NoPod && own:
		return 4
	case own:
		return 3
	case s.State == NoPod:
		return 2
	}
	return 1
}
