// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestASeedHasOnePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, n := rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 60).Draw(t, "n")
		whole := New(seed, n)
		assert.Equal(t, whole, New(seed, n))
		part := rapid.IntRange(0, n).Draw(t, "part")
		shorter := New(seed, part).Steps
		require.Len(t, shorter, part)
		for i := range shorter {
			require.Equal(t, whole.Steps[i], shorter[i], "a shorter plan is the begin of a longer one")
		}
		assert.Equal(t, whole.Workloads, New(seed, 0).Workloads)
	})
}

// A plan can be kept in a file, and repeated after the generator has changed.
func TestAPlanIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := New(rapid.Uint64().Draw(t, "seed"), 60)
		text, err := json.Marshal(p)
		require.NoError(t, err)
		read := &Plan{}
		require.NoError(t, json.Unmarshal(text, read))
		require.Equal(t, p, read)
	})
}

func TestOtherSeedsHaveOtherPlans(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(50) {
		var text strings.Builder
		for _, s := range New(seed, 10).Steps {
			text.WriteString(s.String())
		}
		assert.False(t, seen[text.String()], "seed %d", seed)
		seen[text.String()] = true
	}
}

// Every step is one that the run can take: with what its kind needs, bounded, and on a workload for which it has a meaning.
func TestStepsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := New(rapid.Uint64().Draw(t, "seed"), 40)
		byName := map[string]*Workload{}
		for i := range p.Workloads {
			w := &p.Workloads[i]
			byName[w.Name] = w
			require.NoError(t, w.Mix.Validate())
			require.True(t, 1 <= w.Replicas && w.Replicas <= MaxReplicas)
		}
		var check func(s *Step, inner bool)
		check = func(s *Step, inner bool) {
			require.False(t, inner && s.Fault(), "one fault at a time: %s", s)
			require.True(t, s.Pause >= 0 && s.Pause < pace)
			require.NoError(t, s.Mix.Validate())
			if s.Kind == Scale {
				require.True(t, 1 <= s.Replicas && s.Replicas <= MaxReplicas)
			}
			w := byName[s.Workload]
			require.Equal(t, s.Workload != "", w != nil)
			require.False(t, s.Kind == Remix && w.NoMix)
			require.Equal(t, s.Kind == Declare || s.Kind == Withdraw, s.Product != "")
			require.True(t, s.Parts <= maxParts && (s.Kind == Declare) == (s.Parts > 0))
			require.False(t, s.Kind == Budget && !w.Budgeted)
			require.False(t, s.Kind == RollOut && !w.HasRollouts())
			require.Equal(t, s.Fault(), s.Target != "")
			require.Equal(t, s.Kind == Disturb, s.Network.String() != "no fault")
			require.False(t, s.Kind == Autoscale && w.Owner != Deployment)
			for i := range s.During {
				check(&s.During[i], true)
			}
		}
		for i := range p.Steps {
			check(&p.Steps[i], false)
		}
	})
}

// Many steps have every kind of step, every target and every fault of the network.
func TestEveryKindIsDrawn(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range New(1, 2000).Steps {
		seen[string(s.Kind)+string(s.Target)+s.Network.String()] = true
	}
	faults, kinds := 0, map[Kind]bool{}
	for _, s := range New(1, 2000).Steps {
		kinds[s.Kind] = true
		if s.Fault() {
			faults++
		}
	}
	assert.Len(t, kinds, 27)
	assert.Len(t, seen, 21+2+6+2+2*8, "kinds of traffic, kills, outages and stops, slow etcd and no mixes, faults of the network of two programs")
	assert.InDelta(t, 2000/3, faults, 100)
}

// A rollback returns to the version that ran before the last rollout.
func TestARollbackReturnsToTheVersionBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		running, before := map[string]string{}, map[string]string{}
		var follow func(steps []Step)
		follow = func(steps []Step) {
			for _, s := range steps {
				if s.Kind == RollBack {
					require.Equal(t, before[s.Workload], s.Version)
				}
				if s.Kind == RollOut || s.Kind == RollBack {
					before[s.Workload], running[s.Workload] = running[s.Workload], s.Version
				}
				follow(s.During)
			}
		}
		follow(New(rapid.Uint64().Draw(t, "seed"), 60).Steps)
	})
}

// A limit of the pods is lifted before there is another one.
func TestALimitIsLifted(t *testing.T) {
	limited := false
	var follow func(steps []Step)
	follow = func(steps []Step) {
		for _, s := range steps {
			if s.Kind == Quota || s.Kind == NoQuota {
				assert.Equal(t, limited, s.Kind == NoQuota)
				limited = !limited
			}
			follow(s.During)
		}
	}
	follow(New(3, 600).Steps)
}
