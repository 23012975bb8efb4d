// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"strings"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/overview"
)

// ribbon are the slots of a workload, a cell each.
type ribbon struct {
	Label string
	// Class is the size of the cells.
	Class string
	Cells []cell
	// More counts the slots that are not shown.
	More int
}

// Linked reports whether the cells are links to their pods.
func (r ribbon) Linked() bool { return r.Class == "ribbon" }

// Thin reports whether the cells have no letters.
func (r ribbon) Thin() bool { return strings.HasSuffix(r.Class, " thin") }

// cell is a slot. Its letter and its class show the same, so that no colour is needed to read it.
type cell struct {
	ID, Letter, Class, Title, Words string
	// Block is how many pods a unit has, "" for a slot that is no unit.
	Block string
	// URL is the page of its pod, "" if there is none.
	URL string
	// Links are its first pods, MoreLinks how many more there are.
	Links     []podLink
	MoreLinks int
	overview.Slot
}

// podLink is a pod with its page, and its node with its own.
type podLink struct{ Pod, Node, URL, Logs, NodeURL string }

// The numbers of slots from which a ribbon has smaller cells: a row of the overview has the width of 100 thin cells, and a page that of 100
// narrow ones at 1440 pixels. Cells are links while they are as large as a target of a pointer has to be.
const maxLinked, maxNarrow = 40, 24

// ribbonOf has the first slots of a workload, in a list or on the page of the workload.
func ribbonOf(w *overview.Workload, most int, list bool) ribbon {
	r := ribbon{Label: fmt.Sprintf("%d slots: %s", len(w.Slots)+w.HiddenSlots, states(w)), Class: "ribbon"}
	switch {
	case list && len(w.Slots) > maxNarrow:
		r.Class += " thin"
	case list || len(w.Slots) > maxLinked:
		r.Class += " many"
	}
	n := min(len(w.Slots), most)
	r.More = len(w.Slots) - n + w.HiddenSlots
	for i := range w.Slots[:n] {
		r.Cells = append(r.Cells, slotOf(&w.Slots[i]))
	}
	return r
}

// states counts the slots by state, in the order of the legend.
func states(w *overview.Workload) string {
	counts := map[string]int{}
	for i := range w.Slots {
		counts[phrase(&w.Slots[i])]++
	}
	counts[phrases[overview.NoPod]] += w.HiddenSlots
	var parts []string
	for _, what := range order {
		if counts[what] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[what], what))
		}
	}
	return strings.Join(parts, ", ")
}

var phrases = map[overview.State]string{
	overview.InPlace: "in place", overview.Borrowed: "borrowed", overview.Pending: "pending", overview.Departing: "departing",
	overview.NoPod: "without a pod", overview.Unknown: "unknown",
}

var order = []string{
	"on spot", "on on-demand", "on unknown", phrases[overview.Borrowed], phrases[overview.Pending], phrases[overview.Departing],
	phrases[overview.NoPod], phrases[overview.Unknown],
}

// phrase is the state of a slot in words.
func phrase(s *overview.Slot) string {
	if s.State == overview.InPlace {
		return "on " + s.NodeType
	}
	return phrases[s.State]
}

func slotOf(s *overview.Slot) cell {
	c := cell{ID: fmt.Sprintf("slot-%d-%s", s.Slot, s.Pod), Slot: *s, Letter: s.Letter(), Block: s.Block()}
	c.Class = strings.ToLower(string(s.State)) + " " + nodeClass(s)
	if s.NodeType != "" && s.NodeType != s.Type || s.State == overview.Unknown {
		c.Class += " needs-" + s.Type // else it has the type of the fill
	}
	title := fmt.Sprintf("Slot %d requires %s", s.Slot, s.Type)
	if s.Floor {
		c.Class += " floor"
		title += ", of the floor"
	}
	c.Words = phrases[s.State]
	title += ": " + phrase(s)
	switch {
	case s.Unit != "":
		c.Class += " unit"
		title += fmt.Sprintf(", unit %s of %s: %s", s.Unit, display.Count(len(s.Pods), "pod"), some(s.PodNames()))
	case s.Pod != "":
		title += ", pod " + s.Pod
	}
	if s.Node != "" && s.Unit == "" {
		title += " on node " + s.Node
	}
	c.Title = title
	return c
}

// maxNamed is how many pods of a unit a title names: a unit may have hundreds.
const maxNamed = 8

// some names the first pods of a unit, and counts the others.
func some(names []string) string {
	text := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// nodeClass is the class of the type that colours a cell: that of the node or, without one, that of the slot.
func nodeClass(s *overview.Slot) string {
	t := s.NodeType
	switch {
	case s.State == overview.Unknown:
		t = capacity.Unknown.String()
	case t == "":
		t = s.Type
	}
	return "type-" + t
}
