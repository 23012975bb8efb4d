// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"

	"berth.dev/berth/internal/mix/capacity"
)

// side is the nodes of one capacity type that take pods, by zone, in an order
// that can be walked round and round. Guarded by Ledger.mu.
type side struct {
	zones []*zone
	where map[string]place
	// turn is the zone that the next sample starts with.
	turn int
}

// zone is the nodes of a side in one zone; there is none without nodes.
type zone struct {
	name  string
	nodes []string
	next  int
}

type place struct {
	zone  *zone
	index int
}

func (s *side) add(n Node) {
	if s.where == nil {
		s.where = map[string]place{}
	}
	if _, known := s.where[n.name]; known {
		return
	}
	z := s.zoneNamed(n.zone)
	s.where[n.name] = place{zone: z, index: len(z.nodes)}
	z.nodes = append(z.nodes, n.name)
}

func (s *side) zoneNamed(name string) *zone {
	for _, z := range s.zones {
		if z.name == name {
			return z
		}
	}
	z := &zone{name: name}
	s.zones = append(s.zones, z)
	return z
}

// remove fills the gap with the zone's last node, and drops a zone that ran empty.
func (s *side) remove(n Node) {
	at, known := s.where[n.name]
	if !known {
		return
	}
	z := at.zone
	last := len(z.nodes) - 1
	moved := z.nodes[last]
	z.nodes[at.index] = moved
	s.where[moved] = at
	z.nodes = z.nodes[:last]
	delete(s.where, n.name)
	if len(z.nodes) == 0 {
		s.zones = slices.DeleteFunc(s.zones, func(o *zone) bool { return o == z })
	}
}

// Side returns how many nodes of a type take pods, those in quarantine included.
func (l *Ledger) Side(t capacity.Type) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.sides[t].where)
	if t == capacity.Spot {
		n += len(l.avoided.where)
	}
	return n
}

// Sample returns up to n different nodes of a type that take pods, as many from
// each zone as there are, beginning where the last sample ended. Each node's
// turn comes equally often within its zone. Nodes in quarantine are in none.
func (l *Ledger) Sample(t capacity.Type, n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sides[t].sample(n)
}

// SampleAvoided is Sample for the spot nodes in quarantine.
func (l *Ledger) SampleAvoided(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.avoided.sample(n)
}

func (s *side) sample(n int) []string {
	n = min(n, len(s.where))
	names := make([]string, 0, n)
	if n == 0 {
		return names
	}
	given := make([]int, len(s.zones)) // per zone, so that no node is named twice
	for len(names) < n {
		z := s.zones[s.turn%len(s.zones)]
		i := s.turn % len(s.zones)
		s.turn++
		if given[i] == len(z.nodes) {
			continue
		}
		given[i]++
		names = append(names, z.nodes[z.next%len(z.nodes)])
		z.next = (z.next + 1) % len(z.nodes)
	}
	return names
}
