// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"cmp"
	"math"
	"slices"
)

// Sort puts suggestions in the order of their adoption, and numbers them: the lowest risk first, and of the same risk what saves most.
// Those about domains in quarantine are the last of their risk. What is governed already has no step, and comes before what is blocked.
func Sort(all []Suggestion) {
	slices.SortFunc(all, func(a, b Suggestion) int {
		return cmp.Or(cmp.Compare(a.part(), b.part()), cmp.Compare(a.Risk.rank(), b.Risk.rank()), cmp.Compare(late(a), late(b)),
			cmp.Compare(b.gain(), a.gain()), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Kind, b.Kind))
	})
	step := 0
	for i := range all {
		if all[i].Step = 0; all[i].part() == 0 {
			step++
			all[i].Step = step
		}
	}
}

// part is which part of the list has a suggestion: 0 for those to adopt, then those that a mix governs, then those that are blocked.
func (s *Suggestion) part() int {
	switch {
	case s.Mix == nil:
		return 2
	case s.GovernedBy != "":
		return 1
	}
	return 0
}

func late(s Suggestion) int {
	if s.later {
		return 1
	}
	return 0
}

// gain orders by what is saved: what is unknown comes last.
func (s *Suggestion) gain() float64 {
	if s.SavingPerMonth == nil {
		return math.Inf(-1)
	}
	return *s.SavingPerMonth
}
