// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
)

// MoveReport is what an event about a move has of it, in the annotation v1alpha1.MoveAnnotation: the message of the event is for people.
// Whoever may create events can write another one.
type MoveReport struct {
	// Pod is the replica that is moved, and UID identifies it in all events about its move.
	Pod string    `json:"pod"`
	UID types.UID `json:"uid"`
	// Revision and Role are those of its workload.
	Revision string `json:"revision,omitempty"`
	Role     string `json:"role,omitempty"`
	// From is the type of the node that it runs on, and To that of the slot that its replacement claims. Node is where that fits.
	From     string `json:"from,omitempty"`
	FromNode string `json:"fromNode,omitempty"`
	To       string `json:"to,omitempty"`
	Node     string `json:"node,omitempty"`
	Slot     *int   `json:"slot,omitempty"`
	// Placeholder is the pod that requests the capacity.
	Placeholder string `json:"placeholder,omitempty"`
	// Since is since when the mix was not satisfied. Decided is when the move was decided, and Proven when its capacity was proven.
	Since   time.Time `json:"since,omitzero"`
	Decided time.Time `json:"decided,omitzero"`
	Proven  time.Time `json:"proven,omitzero"`
}

// ReportOfMove is about the replica of an action that was decided at a time.
func ReportOfMove(a *Action, decided time.Time) MoveReport {
	g, v := &a.Of.Group, &a.Verdict
	r := MoveReport{
		Pod: v.Pod.Name, UID: v.Pod.UID, Revision: g.Workload.Revision, Role: roleOf(g), FromNode: v.Pod.Node, To: v.Target.String(),
		Slot: new(SlotOfReplacement(g, v.Pod.UID)), Since: seconds(a.Of.WrongSince), Decided: seconds(decided),
	}
	for i := range g.Assignments {
		if s := &g.Assignments[i]; s.Has(v.Pod.UID) {
			r.From = s.On.String()
		}
	}
	if a.Proof != nil {
		r.Node, r.Proven = a.Proof.Node, seconds(a.Move.Started)
	}
	return r
}

// ReportOfEnding is about a move that is over.
func ReportOfEnding(g *clusterstate.Group, end *Ending) MoveReport {
	m := &end.Move
	r := MoveReport{Pod: m.Name, UID: m.UID, Revision: g.Workload.Revision, Role: roleOf(g), Proven: seconds(m.Started)}
	if m.Target != capacity.Unknown {
		r.To = m.Target.String()
	}
	return r
}

func roleOf(g *clusterstate.Group) string {
	if g.Governing == nil {
		return ""
	}
	return g.Governing.RoleName
}

// seconds is a time with the precision of the API.
func seconds(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Second)
}

// String is the value of the annotation.
func (r MoveReport) String() string {
	text, err := json.Marshal(r)
	if err != nil {
		return "" // it has nothing that JSON lacks
	}
	return string(text)
}

// maxMoveReport bounds a report that is read: names have at most 253 characters.
const maxMoveReport = 4 << 10

// MoveReportOf reads the value of the annotation, and reports whether it is one.
func MoveReportOf(text string) (r MoveReport, ok bool) {
	if len(text) > maxMoveReport || json.Unmarshal([]byte(text), &r) != nil {
		return MoveReport{}, false
	}
	return r, r.UID != "" && r.Pod != ""
}
