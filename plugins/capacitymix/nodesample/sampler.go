// SPDX-License-Identifier: Apache-2.0

// Package nodesample finds a small sample of the nodes of a capacity type on
// which a pod is tried first.
package nodesample

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/apis/config"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/plugins/capacitymix/ledger"
)

// Every node that the framework's plugins filter and score costs some 4 µs and
// ten allocations; to examine one here costs a hundredth. So the sample is ranked
// here, by what nodes have free and by how few siblings are around, and only the
// best of it are returned, an eighth of the sample but no fewer than this.
const minFinalists = 4

// SpreadWeight is what a point of Score counts for against a hundredth of a
// percent free: the plugin's weight in the profiles that Berth ships.
const SpreadWeight = 3 * 100

// Sampler samples the nodes of a cluster. It is shared by the profiles that
// sample in the same way, and used by scheduling cycles only, of which there is
// one at a time.
type Sampler struct {
	ledger *ledger.Ledger
	size   int
	rankBy config.RankSampleBy
	// spreadWeight is SpreadWeight, or 0 where siblings do not matter.
	spreadWeight int64
	// typeLabel is the node label by which ungated pods are limited to their capacity type.
	typeLabel string
	caches    map[capacity.Type]*cache
}

// NewSampler returns a Sampler of up to size nodes. The weight is that of siblings against free capacity.
func NewSampler(l *ledger.Ledger, size int, rankBy config.RankSampleBy, spreadWeight int64, typeLabel string) *Sampler {
	return &Sampler{
		ledger:       l,
		size:         size,
		rankBy:       rankBy,
		spreadWeight: spreadWeight,
		typeLabel:    typeLabel,
		caches:       map[capacity.Type]*cache{capacity.Spot: {}, capacity.OnDemand: {}},
	}
}

// Sample is the nodes that a pod is tried on first.
type Sample struct {
	Names sets.Set[string]
	// Ranked: Names are the best of the sample, not the whole.
	Ranked bool
	// Spread is that of the pod's group over the whole sample.
	Spread Spread
}

// Request is what nodes are sampled for.
type Request struct {
	// Group is that of the pod. Limited is nil where no domain is limited.
	Group   governing.GroupKey
	Limited *Group
	// Type is that of the nodes.
	Type capacity.Type
	// Avoid is set for a pod that may not use the spot nodes in quarantine.
	Avoid bool
}

// Sample returns a sample of the nodes of a type that seem to have free capacity for a pod. ok is false if the pod is to be tried on all
// nodes of the type.
func (s *Sampler) Sample(nodes fwk.NodeInfoLister, pod *corev1.Pod, r Request) (sample Sample, ok bool) {
	if s.size == 0 || s.ledger.Side(r.Type) <= s.size || requiresParticularNodes(pod, s.typeLabel) {
		return Sample{}, false
	}
	all := s.candidates(&search{nodes: nodes, pod: pod, limited: r.Limited, t: r.Type, avoid: r.Avoid})
	if len(all) == 0 {
		return Sample{}, false
	}
	sample.Spread.limited = r.Limited
	sample.Spread.pods = s.ledger.SpreadOf(r.Group, func(yield func(string) bool) {
		for i := range all {
			if !yield(all[i].name) {
				return
			}
		}
	})
	sample.Spread.least = mostCrowded
	for i := range all {
		n, _ := s.ledger.Node(all[i].name)
		all[i].crowding = sample.Spread.around(n, all[i].name)
		sample.Spread.least = sample.Spread.least.min(all[i].crowding)
	}
	if sample.Ranked = s.rankBy != config.RankSampleByOff && !prefersNodes(pod); sample.Ranked {
		all = s.finalists(all, sample.Spread.least)
	}
	sample.Names = make(sets.Set[string], len(all))
	for i := range all {
		sample.Names.Insert(all[i].name)
	}
	return sample, true
}

// Reject reports that no node of a ranked sample passed the filters.
func (s *Sampler) Reject(t capacity.Type, names sets.Set[string]) { s.caches[t].reject(names) }

// candidate is a node of the sample.
type candidate struct {
	name     string
	crowding crowding
	// free is how much of the node's CPU and memory the pod would leave free, in
	// hundredths of a percent: whole percents make equal what is not.
	free int64
	rank int64
}

// finalists are the best of a sample; of equal ones those whose turn came first.
func (s *Sampler) finalists(all []candidate, least crowding) []candidate {
	n := max(minFinalists, len(all)/8)
	if len(all) <= n {
		return all
	}
	for i := range all {
		all[i].rank = s.spreadWeight * all[i].crowding.score(least)
		if s.rankBy == config.RankSampleByMostAllocated {
			all[i].rank -= all[i].free
		} else {
			all[i].rank += all[i].free
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.rank, a.rank) })
	return all[:n]
}

// free values what a pod would leave free: the mean or, where siblings do not matter, which is so for policies that pack, what
// a node lacks to the highest score of their function Binpacking.
func (s *Sampler) free(cpu, memory int64) int64 {
	free := (cpu + memory) / 2
	if s.rankBy == config.RankSampleByMostAllocated && s.spreadWeight == 0 {
		free += max(cpu-memory, memory-cpu) / 4
	}
	return free
}
