// SPDX-License-Identifier: Apache-2.0

package nodesample

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/internal/mix/capacity"
)

// maxRounds bounds how many nodes are examined per node of the sample: in a
// full cluster it is cheaper to try all nodes than to search for a free one here.
const maxRounds = 4

// avoidedPart is the part of a sample, one in so many, that spot nodes in quarantine are besides: they are better where the others are
// crowded.
const avoidedPart = 4

// search finds the candidates for a pod.
type search struct {
	nodes       fwk.NodeInfoLister
	pod         *corev1.Pod
	limited     *Group
	t           capacity.Type
	avoid       bool
	cpu, memory int64
	cached      *cache
	found       []candidate
}

// candidates are nodes of a type that seem to have free capacity: the cached ones, and nodes whose turn it is. The best of them
// are cached. They are up to size nodes outside quarantine and some in quarantine or, if no other has free capacity, size of these.
func (s *Sampler) candidates(r *search) []candidate {
	r.cpu, r.memory = requests(r.pod)
	r.cached, r.found = s.caches[r.t], make([]candidate, 0, s.size)
	stay := s.again(r, false)
	s.fill(r, s.size, func(n int) []string { return s.ledger.Sample(r.t, n) })
	best := len(r.found)
	if r.t == capacity.Spot && !r.avoid {
		most := best + s.size/avoidedPart
		if best == 0 {
			most = s.size
			stay = append(stay, s.again(r, true)...)
		}
		s.fill(r, most, s.ledger.SampleAvoided)
		if best == 0 {
			best = len(r.found)
		}
	}
	if s.rankBy != config.RankSampleByOff {
		r.cached.keep(stay, r.found[:best], s.size/2, s.rankBy)
	}
	return r.found
}

// examine adds a node to the candidates if the pod fits there.
func (s *Sampler) examine(r *search, name string) bool {
	info, err := r.nodes.Get(name)
	if err != nil || !tolerates(r.pod, info) || r.limited != nil && r.limited.refuses(info) {
		return false
	}
	freeCPU, freeMemory, fits := freeAfter(info, r.cpu, r.memory)
	if fits {
		r.found = append(r.found, candidate{name: name, free: s.free(freeCPU, freeMemory)})
	}
	return fits
}

// fill examines nodes whose turn it is, until there are as many candidates as there may be. Where there are few nodes, they have their
// turn more than once.
func (s *Sampler) fill(r *search, most int, next func(n int) []string) {
	for round := range maxRounds {
		names := next(most - len(r.found))
		for _, name := range names {
			if !slices.Contains(r.cached.best, name) && (round == 0 || !r.has(name)) {
				s.examine(r, name)
			}
		}
		if len(r.found) == most || len(names) == 0 {
			return
		}
	}
}

func (r *search) has(name string) bool {
	return slices.ContainsFunc(r.found, func(c candidate) bool { return c.name == name })
}

// again examines the cached nodes that are in quarantine, or those that are not, and returns those that stay cached although the pod
// does not fit.
func (s *Sampler) again(r *search, quarantined bool) (stay []string) {
	for _, name := range r.cached.best {
		n, known := s.ledger.Node(name)
		switch takes := known && n.Takes(r.t); {
		case takes && n.Quarantined != quarantined:
		case takes && s.examine(r, name), !takes:
			delete(r.cached.missed, name)
		case s.rankBy == config.RankSampleByMostAllocated && r.cached.miss(name):
			stay = append(stay, name)
		}
	}
	return stay
}
