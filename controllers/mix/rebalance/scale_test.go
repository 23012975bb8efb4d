// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
)

// scaledController is a strayController whose owner has a scale subresource.
func scaledController(t *testing.T, pods int) (p *fixture, s *server, replicas *int) {
	t.Helper()
	p, s = strayController(t, pods)
	p.Defaults.MaxConcurrent, replicas = 1, &pods
	p.scales = func(_ context.Context, w clusterstate.Workload) (int, bool, error) {
		assert.Equal(t, "CloneSet web", w.String())
		return *replicas, true, nil
	}
	return p, s, replicas
}

// again reconciles once more, some time later.
func (p *fixture) again(t *testing.T, after time.Duration) {
	t.Helper()
	p.setTime(p.Clock.Now().Add(after))
	p.reconcile(t, "shop")
}

func (p *fixture) had() int {
	e, _ := p.Workloads.Get(strayKey)
	return e.Had
}

func TestPodsThatTheScaleOfTheirOwnerMissesHoldAMove(t *testing.T) {
	p, s, replicas := scaledController(t, 4)
	*replicas = 5
	p.reconcile(t, "shop")
	assert.Empty(t, s.evicted)
	assert.Equal(t, rebalance.ReasonReplicasMissing, p.reasonOf(t, ""))
	*replicas = 4
	p.again(t, holdRefused)
	assert.NotEmpty(t, s.evicted)
}

func TestAScaleThatCannotBeReadHoldsAMove(t *testing.T) {
	p, s, _ := scaledController(t, 4)
	p.scales = func(context.Context, clusterstate.Workload) (int, bool, error) {
		return 0, false, errors.New("not now")
	}
	p.reconcile(t, "shop")
	assert.Empty(t, s.evicted)
	assert.Equal(t, ReasonCapacityUnproven, p.reasonOf(t, ""))
}

// The scale tells how many pods have to be back once it has been the number of pods: an owner may count something else.
func TestHowManyPodsMustBeBackFollowsTheScale(t *testing.T) {
	for name, c := range map[string]struct {
		first int // the scale at the move
		later []int
		want  []int
	}{
		"scaled after another reconcile":         {first: 4, later: []int{4, 3, 6}, want: []int{4, 3, 6}},
		"scaled before another reconcile":        {first: 4, later: []int{3}, want: []int{3}},
		"the scale never was the number of pods": {first: 2, later: []int{2, 1}, want: []int{4, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			p, s, replicas := scaledController(t, 4)
			*replicas = c.first
			p.reconcile(t, "shop")
			assert.NotEmpty(t, s.evicted)
			assert.Equal(t, 4, p.had())
			for i, n := range c.later {
				*replicas = n
				p.again(t, time.Second)
				assert.Equal(t, c.want[i], p.had(), "after the scale became %d", n)
			}
		})
	}
}
