// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"strconv"
	"strings"

	"berth.dev/berth/internal/mix/capacity"
)

// Letter is what one cell of a ribbon of slots has, with what it means.
type Letter struct{ Text, Means string }

// The letters of slots: the command line and the console have the same.
const (
	LetterSpot      = "s"
	LetterOnDemand  = "o"
	LetterFloor     = "O"
	LetterPending   = "·"
	LetterNoPod     = "–"
	LetterBorrowed  = "!"
	LetterDeparting = "×"
	LetterUnknown   = "?"
)

// Letters are all letters, in the order of a legend.
var Letters = []Letter{
	{LetterSpot, "on a spot node"},
	{LetterOnDemand, "on an on-demand node"},
	{LetterFloor, "on-demand of minOnDemand"},
	{LetterBorrowed, "on a node of the wrong type"},
	{LetterPending, "a pod without a node"},
	{LetterNoPod, "without a pod"},
	{LetterDeparting, "on a departing node"},
	{LetterUnknown, "unknown: the nodes are not read"},
}

// letterOf are the letters of the states in which a slot is not in place.
var letterOf = map[State]string{
	Borrowed: LetterBorrowed, Pending: LetterPending, NoPod: LetterNoPod, Departing: LetterDeparting, Unknown: LetterUnknown,
}

// Letter is the letter of a slot.
func (s *Slot) Letter() string {
	switch letter, out := letterOf[s.State]; {
	case out:
		return letter
	case s.Type != capacity.OnDemand.String():
		return LetterSpot
	case s.Floor:
		return LetterFloor
	}
	return LetterOnDemand
}

// Block is how many pods a unit has, "" for a slot that is no unit.
func (s *Slot) Block() string {
	if s.Unit == "" {
		return ""
	}
	return strconv.Itoa(len(s.Pods))
}

// Ribbon is a letter for each slot, at most so many, and then how many more there are. Units are blocks, with a space between them.
func (w *Workload) Ribbon(most int) string {
	var cells []string
	for i := range w.Slots[:min(len(w.Slots), most)] {
		cells = append(cells, w.Slots[i].Letter()+w.Slots[i].Block())
	}
	between := ""
	if w.Units > 0 {
		between = " "
	}
	ribbon := strings.Join(cells, between)
	if more := len(w.Slots) - len(cells) + w.HiddenSlots; more > 0 {
		ribbon += fmt.Sprintf("+%d", more)
	}
	return ribbon
}
