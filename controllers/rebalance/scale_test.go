// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/internal/fleet"
	"berth.dev/berth/internal/rebalance"
)

// scaledPass is a strayPass whose owner has a scale subresource.
func scaledPass(t *testing.T, pods int) (p *pass, s *server, replicas *int) {
	t.Helper()
	p, s = strayPass(t, pods)
	p.Defaults.MaxConcurrent, replicas = 1, &pods
	p.scales = func(_ context.Context, w fleet.Workload) (int, bool, error) {
		assert.Equal(t, "CloneSet web", w.String())
		return *replicas, true, nil
	}
	return p, s, replicas
}

// again looks once more, some time later.
func (p *pass) again(t *testing.T, after time.Duration) {
	t.Helper()
	clock := p.Clock.(*clocktesting.FakeClock)
	clock.Step(after)
	*p = *passAt(p.Controller, clock.Now())
	p.lookAt(t, "shop")
}

func (p *pass) had() int {
	e, _ := p.Board.Get(strayKey)
	return e.Had
}

func TestPodsThatTheScaleOfTheirOwnerMissesHoldAMove(t *testing.T) {
	p, s, replicas := scaledPass(t, 4)
	*replicas = 5
	p.lookAt(t, "shop")
	assert.Empty(t, s.evicted)
	assert.Equal(t, rebalance.ReasonReplicasMissing, p.reasonOf(t, ""))
	*replicas = 4
	p.again(t, holdRefused)
	assert.NotEmpty(t, s.evicted)
}

func TestAScaleThatCannotBeReadHoldsAMove(t *testing.T) {
	p, s, _ := scaledPass(t, 4)
	p.scales = func(context.Context, fleet.Workload) (int, bool, error) { return 0, false, errors.New("not now") }
	p.lookAt(t, "shop")
	assert.Empty(t, s.evicted)
	assert.Equal(t, ReasonUnproven, p.reasonOf(t, ""))
}

func TestHowManyPodsMustBeBackFollowsTheScale(t *testing.T) {
	p, s, replicas := scaledPass(t, 4)
	p.lookAt(t, "shop")
	assert.NotEmpty(t, s.evicted)
	assert.Equal(t, 4, p.had())
	p.again(t, time.Second)
	assert.Equal(t, 4, p.had())
	for _, n := range []int{3, 6} {
		*replicas = n
		p.again(t, time.Second)
		assert.Equal(t, n, p.had(), "the user scaled it")
	}
}

// The user does not wait until Berth looks again.
func TestTheScaleIsFollowedFromTheMoveOn(t *testing.T) {
	p, s, replicas := scaledPass(t, 4)
	p.lookAt(t, "shop")
	assert.NotEmpty(t, s.evicted)
	*replicas = 3
	p.again(t, time.Second)
	assert.Equal(t, 3, p.had())
}

// An owner may count something else than pods: then what was there before the move has to be back.
func TestAScaleThatNeverWasTheNumberOfPodsTellsNothing(t *testing.T) {
	p, s, replicas := scaledPass(t, 4)
	*replicas = 2
	p.lookAt(t, "shop")
	assert.NotEmpty(t, s.evicted)
	p.again(t, time.Second)
	assert.Equal(t, 4, p.had())
	*replicas = 1
	p.again(t, time.Second)
	assert.Equal(t, 4, p.had())
}
