// SPDX-License-Identifier: Apache-2.0

package optimum

import (
	"slices"
	"sort"
	"time"

	"berth.dev/berth/internal/sim/scenario"
)

// step is a number from a time on.
type step struct {
	at time.Duration
	n  int
}

// valueAt is the number at a time, 0 before the first one.
func valueAt(steps []step, at time.Duration) int {
	i := sort.Search(len(steps), func(i int) bool { return steps[i].at > at })
	if i == 0 {
		return 0
	}
	return steps[i-1].n
}

// add adds a number, unless it is the one before.
func add(steps []step, at time.Duration, n int) []step {
	if last := len(steps) - 1; last >= 0 && steps[last].n == n {
		return steps
	}
	return append(steps, step{at, n})
}

// momentsOf are the times of some steps, and each of them later.
func momentsOf(steps []step, later time.Duration) []time.Duration {
	times := make([]time.Duration, 0, 2*len(steps))
	for _, s := range steps {
		times = append(times, s.at, s.at+later)
	}
	slices.Sort(times)
	return slices.Compact(times)
}

// most is the largest number of nodes that a pool can have over time.
func most(p *scenario.NodePool) (steps []step) {
	limit, launch := scenario.MaxNodes, seconds(p.LaunchSeconds)
	if p.Fixed {
		limit = int(p.Nodes)
	}
	if p.Max != nil {
		limit = int(*p.Max)
	}
	there := []step{{0, limit}}
	if a := p.Availability; a != nil && a.Loaded != nil {
		var trace []step
		for _, s := range a.Loaded.Steps {
			trace = append(trace, step{s.At, min(int(a.Available(s.At)), limit)})
		}
		there = noticed(launchable(trace, launch-min(launch, FailsAfter), p.Nodes > 0), seconds(p.NoticeSeconds))
	}
	times := append(momentsOf(there, 0), launch)
	slices.Sort(times)
	for _, at := range slices.Compact(times) {
		n := valueAt(there, at)
		if at < launch {
			n = min(n, int(p.Nodes))
		}
		steps = add(steps, at, n)
	}
	return steps
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// launchable is a trace without the nodes that cannot be Ready: after a time without any, a node needs that there was one a while before.
func launchable(trace []step, before time.Duration, open bool) (steps []step) {
	for _, at := range momentsOf(trace, before) {
		n := valueAt(trace, at)
		if open = n > 0 && (open || valueAt(trace, at-before) > 0); !open {
			n = 0
		}
		steps = add(steps, at, n)
	}
	return steps
}

// noticed is the largest number within the time of a notice.
func noticed(nodes []step, notice time.Duration) (steps []step) {
	next, largest := 0, []int{} // the indexes of numbers that no later one exceeds
	for _, at := range momentsOf(nodes, notice) {
		for ; next < len(nodes) && nodes[next].at <= at; next++ {
			for len(largest) > 0 && nodes[largest[len(largest)-1]].n <= nodes[next].n {
				largest = largest[:len(largest)-1]
			}
			largest = append(largest, next)
		}
		for largest[0]+1 < next && nodes[largest[0]+1].at <= at-notice {
			largest = largest[1:]
		}
		steps = add(steps, at, nodes[largest[0]].n)
	}
	return steps
}
