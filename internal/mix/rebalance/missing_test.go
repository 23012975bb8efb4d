// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
)

func podsOf(n, ready int) clusterstate.Group {
	var g clusterstate.Group
	for i := range n {
		g.Assignments = append(g.Assignments, clusterstate.Assignment{Pod: &clusterstate.Pod{Ready: i < ready}})
	}
	g.Replicas = n
	return g
}

func TestMustBeBack(t *testing.T) {
	accepts := func(text string) clusterstate.Group {
		g := podsOf(7, 7)
		g.Assignments[3].Pod.Annotations = map[string]string{v1alpha1.AcceptedReplicasAnnotation: text}
		return g
	}
	counted, ended := podsOf(7, 7), podsOf(7, 7)
	counted.Counted, ended.Ended = true, true
	for name, tc := range map[string]struct {
		group     clusterstate.Group
		had, want int
	}{
		"nothing moved":                       {podsOf(7, 7), 0, 0},
		"the owner does not tell":             {podsOf(7, 7), 10, 10},
		"the owner tells that it wants fewer": {counted, 10, 7},
		"the owner makes no more":             {ended, 10, 0},
		"a user accepts fewer":                {accepts("7"), 10, 7},
		"a user accepts more":                 {accepts("12"), 10, 10},
		"a user accepts none":                 {accepts("0"), 10, 0},
		"a number below 0":                    {accepts("-1"), 10, 10},
		"no number":                           {accepts("seven"), 10, 10},
		"a number without end":                {accepts("99999999999999999999"), 10, 10},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tc.want, MustBeBack(&tc.group, tc.had)) })
	}
}

func TestReplicasMissing(t *testing.T) {
	in := Input{Group: podsOf(7, 7), History: History{Had: 10}}
	v := replicasMissing(&subject{Input: &in})
	assert.Equal(t, ReasonReplicasMissing, v.Reason)
	assert.Contains(t, v.Message, "7 of 10 pods that it had before the last move are available")
	in.Group.Counted = true
	assert.Zero(t, replicasMissing(&subject{Input: &in}), "the owner's number decides")
}

// An operator replaces pods whenever it likes, or never. As long as moves are chosen by the check and at most k are on the
// move, never more than k pods are missing of those that there were, whatever times out.
func TestNeverMoreThanTheBudgetIsMissing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, k := rapid.IntRange(1, 12).Draw(t, "pods"), rapid.IntRange(1, 4).Draw(t, "budget")
		live, moving, had := n, 0, 0
		t.Repeat(map[string]func(*rapid.T){
			"a move begins": func(t *rapid.T) {
				in := Input{Group: podsOf(live, live), History: History{Had: had, Moving: moving}}
				if v := replicasMissing(&subject{Input: &in}); v.Reason != nil || moving >= k || live == 0 {
					t.Skip("not now")
				}
				if had == 0 {
					had = live
				}
				live, moving = live-1, moving+1
			},
			"a pod is replaced": func(t *rapid.T) {
				if live == n {
					t.Skip("all are there")
				}
				live++
			},
			"a move times out": func(t *rapid.T) { moving = max(0, moving-1) },
			"": func(t *rapid.T) {
				g := podsOf(live, live)
				if had = MustBeBack(&g, had); live >= had {
					moving, had = 0, 0 // the moves are over
				}
				require.LessOrEqual(t, n-live, k)
			},
		})
	})
}

// Fewer pods than before a move are accepted only from a scale that requested as many as there were.
func TestFollowScale(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		had := rapid.IntRange(1, 100).Draw(rt, "had")
		back, follows, agreed := had, false, false
		for _, n := range rapid.SliceOfN(rapid.OneOf(rapid.Just(had), rapid.IntRange(0, 200), rapid.Just(math.MaxInt32)), 1, 8).Draw(rt, "scale") {
			if back, follows = FollowScale(back, follows, n); !agreed {
				assert.Equal(rt, had, back)
			} else {
				assert.Equal(rt, min(n, maxReplicas), back)
			}
			agreed = agreed || n == had
			assert.Equal(rt, agreed, follows)
		}
	})
}
