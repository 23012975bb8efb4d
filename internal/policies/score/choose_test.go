// SPDX-License-Identifier: Apache-2.0

package score

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
)

// nodes are candidates with a score each, and the load and affinity of their position.
func nodes(scores ...float64) []Candidate {
	all := make([]Candidate, len(scores))
	for i, s := range scores {
		all[i] = Candidate{Node: fmt.Sprintf("n%02d", i), Score: s, Load: 1 - float64(i)/100, Affinity: float64(i)}
	}
	return all
}

func selected(c *Chooser, all []Candidate) string {
	index, _ := c.Choose(all)
	c.Selected(all[index].Node)
	return all[index].Node
}

func TestTheBestNodeIsSelected(t *testing.T) {
	t.Parallel()
	for _, strategy := range []v1alpha1.TieBreaker{
		v1alpha1.TieBreakerName, v1alpha1.TieBreakerRandom, v1alpha1.TieBreakerLeastLoaded, v1alpha1.TieBreakerRoundRobin,
		v1alpha1.TieBreakerAffinityBased,
	} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				all := nodes(rapid.SliceOfN(rapid.Float64Range(0, 5), 1, 20).Draw(t, "scores")...)
				for i := range all {
					all[i].Demoted = rapid.Bool().Draw(t, "demoted")
				}
				c := NewChooser(strategy, nil)
				for range 3 {
					index, tied := c.Choose(all)
					best, ties := -1.0, 0
					for _, other := range all {
						if !other.Demoted {
							best = max(best, other.Score)
						}
						require.False(t, all[index].Demoted && !other.Demoted, "a node that is not demoted is better")
						if other.Demoted == all[index].Demoted {
							require.GreaterOrEqual(t, all[index].Score, other.Score-step)
							if other.Score >= all[index].Score-step {
								ties++
							}
						}
					}
					require.GreaterOrEqual(t, ties, tied)
					require.Positive(t, tied)
					c.Selected(all[index].Node)
				}
			})
		})
	}
}

func TestTies(t *testing.T) {
	t.Parallel()
	all := nodes(7, 9, 9, 9, 3)
	assert.Equal(t, "n01", selected(NewChooser(v1alpha1.TieBreakerName, nil), all))
	assert.Equal(t, "n03", selected(NewChooser(v1alpha1.TieBreakerLeastLoaded, nil), all), "the highest number has the lowest load")
	assert.Equal(t, "n03", selected(NewChooser(v1alpha1.TieBreakerAffinityBased, nil), all))
	_, tied := NewChooser(v1alpha1.TieBreakerName, nil).Choose(all)
	assert.Equal(t, 3, tied)
	_, tied = NewChooser(v1alpha1.TieBreakerName, nil).Choose(nodes(7, 9, 9+step/4))
	assert.Equal(t, 2, tied, "the last digits of sums do not count")
}

func TestDemotedNodesComeLast(t *testing.T) {
	t.Parallel()
	all := nodes(9, 5, 1)
	all[0].Demoted = true
	c := NewChooser(v1alpha1.TieBreakerName, nil)
	assert.Equal(t, "n01", selected(c, all))
	all[1].Demoted, all[2].Demoted = true, true
	assert.Equal(t, "n00", selected(c, all))
}

// Each of the tied nodes is selected once before one is selected twice, also where other nodes come and go.
func TestRoundRobinIsFairWithinOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := nodes(9, 9, 9, 9, 9, 1, 1)
		c := NewChooser(v1alpha1.TieBreakerRoundRobin, nil)
		counts := map[string]int{}
		for range rapid.IntRange(1, 60).Draw(t, "pods") {
			rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			counts[selected(c, all)]++
		}
		least, most := 1000, 0
		for _, n := range all {
			if n.Score == 9 {
				least, most = min(least, counts[n.Node]), max(most, counts[n.Node])
			} else {
				require.Zero(t, counts[n.Node])
			}
		}
		require.LessOrEqual(t, most-least, 1)
	})
}

func TestRoundRobinCountsNodesThatWereTheOnlyOne(t *testing.T) {
	t.Parallel()
	c := NewChooser(v1alpha1.TieBreakerRoundRobin, nil)
	c.Selected("n00")
	assert.Equal(t, "n01", selected(c, nodes(9, 9, 9)))
}

// Pods that fit on one node only do not decide where the others go.
func TestRoundRobinIsFairBesidePodsThatHaveOneNode(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := nodes(9, 9, 9, 9, 9, 9, 9, 9)
		c := NewChooser(v1alpha1.TieBreakerRoundRobin, nil)
		counts := map[string]int{}
		for range rapid.IntRange(1, 64).Draw(t, "pods") {
			counts[selected(c, all)]++
			for range rapid.IntRange(0, 2).Draw(t, "pinned") {
				c.Selected("n07")
			}
		}
		least, most := 1000, 0
		for _, n := range all[:7] {
			least, most = min(least, counts[n.Node]), max(most, counts[n.Node])
		}
		require.LessOrEqual(t, most-least, 1, "of the nodes that were candidates of the free pods only: %v", counts)
		require.LessOrEqual(t, counts["n07"], most)
	})
}

func TestTurnsOfNodesThatAreGoneAreForgotten(t *testing.T) {
	t.Parallel()
	c := NewChooser(v1alpha1.TieBreakerRoundRobin, nil)
	for i := range 3 * maxTurns {
		c.Selected(fmt.Sprint("gone-", i))
	}
	assert.LessOrEqual(t, len(c.turns.recent)+len(c.turns.older), 2*maxTurns)
	assert.Zero(t, c.turns.last("gone-0"))
}

// Choose and Rank order candidates alike, also where each score is next to another one.
func TestChooseSelectsWhatRanksFirst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		strategy := rapid.SampledFrom([]v1alpha1.TieBreaker{
			v1alpha1.TieBreakerName, v1alpha1.TieBreakerLeastLoaded, v1alpha1.TieBreakerAffinityBased,
		}).Draw(t, "strategy")
		all := make([]Candidate, rapid.IntRange(1, 12).Draw(t, "nodes"))
		for i := range all {
			all[i] = Candidate{
				Node: fmt.Sprintf("n%02d", i), Score: 50 + float64(rapid.IntRange(0, 40).Draw(t, "tenths"))*step/10,
				Load: rapid.Float64Range(0, 1).Draw(t, "load"), Affinity: rapid.Float64Range(0, 100).Draw(t, "affinity"),
				Demoted: rapid.Bool().Draw(t, "demoted"),
			}
		}
		c := NewChooser(strategy, nil)
		index, tied := c.Choose(all)
		ranked := slices.Clone(all)
		c.Rank(ranked)
		require.Equal(t, all[index].Node, ranked[0].Node)
		for i := range ranked {
			for j := range ranked[i:] {
				require.LessOrEqual(t, byScore(&ranked[i], &ranked[i+j]), 0, "%v is before %v", ranked[i], ranked[i+j])
			}
			require.Equal(t, i < tied, byScore(&ranked[i], &ranked[0]) == 0)
		}
	})
}

// distribution selects many times, and returns how often each node was.
func distribution(strategy v1alpha1.TieBreaker, all []Candidate, times int) map[string]int {
	c := NewChooser(strategy, ptr.To[int64](1))
	counts := map[string]int{}
	for range times {
		counts[selected(c, all)]++
	}
	return counts
}

func TestRandomIsUniformAmongTies(t *testing.T) {
	t.Parallel()
	counts := distribution(v1alpha1.TieBreakerRandom, nodes(9, 9, 9, 9, 5), 4000)
	for _, n := range []string{"n00", "n01", "n02", "n03"} {
		assert.InDelta(t, 1000, counts[n], 150, n) // five standard deviations
	}
	assert.Zero(t, counts["n04"], "only ties are drawn")
}

func TestWeightedRandomIsInProportionToTheScore(t *testing.T) {
	t.Parallel()
	counts := distribution(v1alpha1.TieBreakerWeightedRandom, nodes(10, 20, 70, 0), 10000)
	assert.InDelta(t, 1000, counts["n00"], 150)
	assert.InDelta(t, 2000, counts["n01"], 200)
	assert.InDelta(t, 7000, counts["n02"], 230)
	assert.Zero(t, counts["n03"])
	counts = distribution(v1alpha1.TieBreakerWeightedRandom, nodes(0, 0), 2000)
	assert.InDelta(t, 1000, counts["n00"], 112, "without any score all are equal")
}

func TestWeightedRandomSelectsNoDemotedNode(t *testing.T) {
	t.Parallel()
	all := nodes(1, 1000)
	all[1].Demoted = true
	assert.Equal(t, map[string]int{"n00": 100}, distribution(v1alpha1.TieBreakerWeightedRandom, all, 100))
}

func TestASeedRepeatsTheChoices(t *testing.T) {
	t.Parallel()
	for _, strategy := range []v1alpha1.TieBreaker{v1alpha1.TieBreakerRandom, v1alpha1.TieBreakerWeightedRandom} {
		sequence := func(seed int64) (names []string) {
			c := NewChooser(strategy, &seed)
			all := nodes(9, 9, 9, 9, 9, 9, 9, 9)
			for range 50 {
				rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				names = append(names, selected(c, all))
			}
			return names
		}
		assert.Equal(t, sequence(7), sequence(7), strategy)
		assert.NotEqual(t, sequence(7), sequence(8), strategy)
	}
}

// A hundred orders of the nodes lead to one answer, and the order of the others is that of repeated choices.
func TestTheOrderOfNodesDoesNotMatter(t *testing.T) {
	t.Parallel()
	for _, strategy := range []v1alpha1.TieBreaker{
		v1alpha1.TieBreakerName, v1alpha1.TieBreakerLeastLoaded, v1alpha1.TieBreakerAffinityBased,
	} {
		require.True(t, Stateless(strategy))
		rapid.Check(t, func(t *rapid.T) {
			scores := rapid.SliceOfN(rapid.SampledFrom([]float64{1, 2, 3}), 1, 12).Draw(t, "scores")
			all := nodes(scores...)
			c := NewChooser(strategy, nil)
			want := selected(c, all)
			ranked := append([]Candidate(nil), all...)
			c.Rank(ranked)
			for range 100 {
				rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				require.Equal(t, want, selected(c, all))
			}
			for left := all; len(left) > 0; {
				index, _ := c.Choose(left)
				require.Equal(t, ranked[0].Node, left[index].Node)
				ranked = ranked[1:]
				left = append(left[:index:index], left[index+1:]...)
			}
		})
	}
}
