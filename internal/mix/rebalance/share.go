// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"cmp"
	"time"
)

// SlowAfter is how long a move counts in the budget of the cluster for the other namespaces. One whose replacement never
// becomes Ready would keep them from their own.
const SlowAfter = 2 * time.Minute

// Standing is what a namespace has of the budget of the cluster.
type Standing struct {
	Namespace string
	// Fresh and Slow are the replicas being moved: those for less than SlowAfter, and the others.
	Fresh, Slow int
	// Waits is set where a workload waits for the budget.
	Waits bool
	// Began is a count: the namespace that began a move last has the highest.
	Began uint64
}

// before reports whether a namespace has its turn before another one: the one that has fewer replicas being moved, and of
// two with as many the one that waits longer.
func (s *Standing) before(o *Standing) bool {
	return cmp.Or(cmp.Compare(s.Fresh+s.Slow, o.Fresh+o.Slow), cmp.Compare(s.Began, o.Began), cmp.Compare(s.Namespace, o.Namespace)) < 0
}

// Share returns how many replicas being moved count for a namespace, and how many places are reserved for namespaces that
// have their turn before it. Together they must be less than the limit for it to begin another move.
func Share(mine Standing, others []Standing) (inFlight, reserved int) {
	inFlight = mine.Fresh + mine.Slow
	for i := range others {
		o := &others[i]
		inFlight += o.Fresh
		if o.Waits && o.before(&mine) {
			reserved++
		}
	}
	return inFlight, reserved
}
