// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"slices"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
)

// Under is a workload with the slots of another mix: what it would require, and where its pods are now. Slots keep their numbers.
func (w *Workload) Under(m split.Mix) Workload {
	out := *w
	out.Slots = slices.Clone(w.Slots)
	for i := range out.Slots {
		s := &out.Slots[i]
		s.Type, s.Floor = m.TypeOf(s.Slot).String(), m.IsFloor(s.Slot)
		known := s.NodeType == capacity.Spot.String() || s.NodeType == capacity.OnDemand.String()
		if !known || s.State != InPlace && s.State != Borrowed {
			continue
		}
		s.State, s.Reason = InPlace, ""
		if s.NodeType != s.Type {
			s.State, s.Reason = Borrowed, "the slot would require "+s.Type
		}
	}
	return out
}
