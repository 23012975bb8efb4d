// SPDX-License-Identifier: Apache-2.0

package capacitymix

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"berth.dev/berth/apis/config"
)

// memory keeps the best nodes of a capacity type that samples have come upon.
// Half of a sample is taken from here, and half from the rotation: that fills a
// cluster as evenly as a rotation of several times as many (Mitzenmacher,
// Prabhakar and Shah, "Load Balancing with Memory", 2002, have the theory).
//
// Only the scheduling cycle uses it, and there is one at a time.
type memory struct {
	best []string
	// refused are nodes that seemed best and that a filter refused all the same:
	// were they kept, every sample would end at them. The last ones, in a ring.
	refused [64]string
	refusal int

	ranked []candidate // scratch
}

// keep forgets what was known and keeps the best n of some candidates: those
// that a pod leaves most room on, or least where nodes are packed.
func (m *memory) keep(all []candidate, n int, by config.RankSampleBy) {
	m.ranked = m.ranked[:0]
	for i := range all {
		c := &all[i]
		if len(m.ranked) == n && !c.emptier(&m.ranked[n-1], by) {
			continue
		}
		if m.refusal > 0 && slices.Contains(m.refused[:], c.name) {
			continue
		}
		at := len(m.ranked)
		for at > 0 && c.emptier(&m.ranked[at-1], by) {
			at--
		}
		m.ranked = slices.Insert(m.ranked[:min(len(m.ranked), n-1)], min(at, n-1), *c)
	}
	m.best = m.best[:0]
	for i := range m.ranked {
		m.best = append(m.best, m.ranked[i].name)
	}
}

// emptier reports whether a node is the better one by room alone.
func (c *candidate) emptier(o *candidate, by config.RankSampleBy) bool {
	if by == config.RankSampleByMostAllocated {
		return c.free < o.free
	}
	return c.free > o.free
}

// refuse is told of nodes that were handed on, and of which none would do.
func (m *memory) refuse(names sets.Set[string]) {
	for name := range names {
		if !slices.Contains(m.refused[:], name) {
			m.refused[m.refusal%len(m.refused)] = name
			m.refusal++
		}
	}
	m.best = slices.DeleteFunc(m.best, names.Has)
}
