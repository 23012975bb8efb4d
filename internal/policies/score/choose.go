// SPDX-License-Identifier: Apache-2.0

package score

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"berth.dev/berth/apis/v1alpha1"
)

// step is the step in which scores are compared: sums of floating-point numbers differ in their last digits. Two scores are
// rounded before they are compared, and not compared with a tolerance, which would not be transitive: a could equal b, and b
// equal c, where a is below c.
const step = 1e-9

// Candidate is a feasible node with its score.
type Candidate struct {
	Node  string
	Score float64
	// Load is the mean utilization of the node's CPU and memory, from 0 to 1.
	Load float64
	// Affinity is the value of PreferredAffinity.
	Affinity float64
	// Demoted nodes rank below all that are not, whatever their score.
	Demoted bool
}

// Chooser selects one of the best candidates. It has the state that some strategies keep from pod to pod, so there is one
// for each policy. Not safe for concurrent use.
type Chooser struct {
	strategy v1alpha1.TieBreaker
	random   *rand.Rand
	turns    turns
}

// NewChooser returns a Chooser. With a seed, random choices are repeatable.
func NewChooser(strategy v1alpha1.TieBreaker, seed *int64) *Chooser {
	c := &Chooser{strategy: strategy}
	switch strategy {
	case v1alpha1.TieBreakerRandom, v1alpha1.TieBreakerWeightedRandom:
		stream := rand.Uint64() //nolint:gosec // not a secret
		if seed != nil {
			stream = uint64(*seed) //nolint:gosec // any number is a seed
		}
		c.random = rand.New(rand.NewPCG(stream, 0)) //nolint:gosec // not a secret
	}
	return c
}

// Selected passes to the chooser which node the pod goes to, also where it was the only one.
func (c *Chooser) Selected(node string) {
	if c.strategy == v1alpha1.TieBreakerRoundRobin {
		c.turns.take(node)
	}
}

// Choose returns the index of the selected candidate, and how many candidates have its score or a higher one and are not
// demoted below the best. The list must not be empty; its order does not change the result.
func (c *Chooser) Choose(all []Candidate) (index, tied int) {
	top := best(all)
	if c.strategy == v1alpha1.TieBreakerWeightedRandom {
		return c.weighted(all, top), 1
	}
	ties := make([]int, 0, 8)
	for i := range all {
		if byScore(&all[i], top) == 0 {
			ties = append(ties, i)
		}
	}
	return c.among(all, ties), len(ties)
}

// best returns a candidate with the highest score of those that are not demoted, or of all if all are.
func best(all []Candidate) *Candidate {
	top := &all[0]
	for i := range all {
		if c := &all[i]; byScore(c, top) < 0 {
			top = c
		}
	}
	return top
}

// among selects one of the candidates with equal scores.
func (c *Chooser) among(all []Candidate, ties []int) int {
	if c.strategy == v1alpha1.TieBreakerRandom {
		if len(ties) == 1 {
			return ties[0]
		}
		slices.SortFunc(ties, func(a, b int) int { return cmp.Compare(all[a].Node, all[b].Node) })
		return ties[c.random.IntN(len(ties))]
	}
	return slices.MinFunc(ties, func(a, b int) int { return c.compare(&all[a], &all[b]) })
}

// compare orders candidates with equal scores; the first one is selected.
func (c *Chooser) compare(a, b *Candidate) int {
	byName := cmp.Compare(a.Node, b.Node)
	switch c.strategy {
	case v1alpha1.TieBreakerLeastLoaded:
		return cmp.Or(cmp.Compare(a.Load, b.Load), byName)
	case v1alpha1.TieBreakerAffinityBased:
		return cmp.Or(cmp.Compare(b.Affinity, a.Affinity), byName)
	case v1alpha1.TieBreakerRoundRobin:
		return cmp.Or(cmp.Compare(c.turns.last(a.Node), c.turns.last(b.Node)), byName)
	}
	return byName
}

// weighted selects any candidate that is demoted as the best is, with a probability in proportion to its score; with equal
// probability if all scores are 0.
func (c *Chooser) weighted(all []Candidate, top *Candidate) int {
	order := make([]int, 0, len(all))
	var sum float64
	for i := range all {
		if all[i].Demoted == top.Demoted {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(all[a].Node, all[b].Node) })
	for _, i := range order {
		sum += all[i].Score
	}
	if sum <= 0 {
		return order[c.random.IntN(len(order))]
	}
	at := c.random.Float64() * sum
	for _, i := range order {
		if at -= all[i].Score; at < 0 {
			return i
		}
	}
	return order[len(order)-1]
}

// Rank orders candidates as repeated choices would select them if nothing else changed: those that are not demoted first, by
// score, equal ones by the strategy. Only strategies without state have an order.
func (c *Chooser) Rank(all []Candidate) {
	slices.SortFunc(all, func(a, b Candidate) int {
		if by := byScore(&a, &b); by != 0 {
			return by
		}
		return c.compare(&a, &b)
	})
}

// byScore orders candidates: those that are not demoted first, then by score.
func byScore(a, b *Candidate) int {
	if a.Demoted != b.Demoted {
		if a.Demoted {
			return 1
		}
		return -1
	}
	return cmp.Compare(math.Round(b.Score/step), math.Round(a.Score/step))
}

// Better orders candidates by score, and equal ones by name.
func Better(a, b *Candidate) int { return cmp.Or(byScore(a, b), cmp.Compare(a.Node, b.Node)) }

// Stateless reports whether the same candidates always lead to the same choice.
func Stateless(strategy v1alpha1.TieBreaker) bool {
	switch strategy {
	case v1alpha1.TieBreakerName, v1alpha1.TieBreakerLeastLoaded, v1alpha1.TieBreakerAffinityBased:
		return true
	}
	return false
}
