// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"regexp"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/mix/clusterstate"
)

// triedSlot is what the scheduler writes about nodes of the wrong type (plugins/capacitymix.ErrReasonWrongType).
var triedSlot = regexp.MustCompile(`\bslot (\d{1,7}) needs (spot|on-demand)\b`)

// slotOf is the slot of a seat and who gave it. A pending pod without a slot of its own has the one that the scheduler tried last:
// the ledger of the scheduler knows which pods wait, and by age alone another one may come out.
func (e *explainer) slotOf(g *clusterstate.Group, seat clusterstate.Seat) SlotFacts {
	s := SlotFacts{Number: seat.Slot, Type: seat.Wants.String(), From: e.slotFrom(g, seat)}
	if s.From != "count" || seat.Place != clusterstate.Pending {
		return s
	}
	for _, c := range e.pod.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse {
			continue
		}
		tried := triedSlot.FindStringSubmatch(c.Message)
		if tried == nil {
			continue
		}
		if n, err := strconv.Atoi(tried[1]); err == nil && g.Policy.Mix.TypeOf(n).String() == tried[2] { // else the mix has changed since
			s = SlotFacts{Number: n, Type: tried[2], From: "scheduler"}
		}
	}
	return s
}

// waitsFor is the type of node that a pending pod needs.
func (s SlotFacts) waitsFor(seat clusterstate.Seat) string {
	if s.From == "scheduler" {
		return s.Type
	}
	return seat.On.String()
}
