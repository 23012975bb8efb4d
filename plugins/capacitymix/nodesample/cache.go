// SPDX-License-Identifier: Apache-2.0

package nodesample

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"berth.dev/berth/apis/config"
)

// cache keeps the best nodes of a capacity type that samples have found. Half of
// a sample is taken from here, and half from the rotation: that fills a cluster
// as evenly as a rotation of several times as many (Mitzenmacher, Prabhakar and
// Shah, "Load Balancing with Memory", 2002, have the theory).
type cache struct {
	best []string
	// missed has, by name, how many pods in a row did not fit on a node that is cached all the same. Packed nodes are nearly
	// full: were those on which one large pod does not fit dropped, small pods would open other nodes.
	missed map[string]int
	// rejected are nodes that seemed best and that a filter rejected all the same:
	// were they kept, every sample would end at them. The last ones, in a ring.
	rejected  [64]string
	rejection int

	ranked []candidate // reused between calls
}

// maxMissed bounds for how many pods a node stays cached on which none of them fits.
const maxMissed = 8

// miss reports whether a node stays cached on which a pod does not fit.
func (c *cache) miss(name string) bool {
	if c.missed[name] == maxMissed {
		delete(c.missed, name)
		return false
	}
	if c.missed == nil {
		c.missed = map[string]int{}
	}
	c.missed[name]++
	return true
}

// keep replaces what is cached by nodes that stay, n at most, and the best of some candidates.
func (c *cache) keep(stay []string, all []candidate, n int, by config.RankSampleBy) {
	c.replace(all, n-len(stay), by)
	c.best = append(c.best, stay...)
	if len(c.missed) > len(stay) { // some were not examined: their domains are in quarantine
		maps.DeleteFunc(c.missed, func(name string, _ int) bool { return !slices.Contains(stay, name) })
	}
}

// replace replaces what is cached by the best n of some candidates: those on
// which a pod leaves most free, or least where nodes are packed.
func (c *cache) replace(all []candidate, n int, by config.RankSampleBy) {
	c.ranked, c.best = c.ranked[:0], c.best[:0]
	if n == 0 {
		return
	}
	for i := range all {
		a := &all[i]
		if len(c.ranked) == n && !a.better(&c.ranked[n-1], by) {
			continue
		}
		if c.rejection > 0 && slices.Contains(c.rejected[:], a.name) {
			continue
		}
		at := len(c.ranked)
		for at > 0 && a.better(&c.ranked[at-1], by) {
			at--
		}
		c.ranked = slices.Insert(c.ranked[:min(len(c.ranked), n-1)], min(at, n-1), *a)
	}
	for i := range c.ranked {
		c.best = append(c.best, c.ranked[i].name)
	}
}

// better compares two nodes by what they have free.
func (c *candidate) better(o *candidate, by config.RankSampleBy) bool {
	if by == config.RankSampleByMostAllocated {
		return c.free < o.free
	}
	return c.free > o.free
}

// reject removes nodes of a sample of which none passed the filters.
func (c *cache) reject(names sets.Set[string]) {
	for name := range names {
		if !slices.Contains(c.rejected[:], name) {
			c.rejected[c.rejection%len(c.rejected)] = name
			c.rejection++
		}
	}
	c.best = slices.DeleteFunc(c.best, names.Has)
}
