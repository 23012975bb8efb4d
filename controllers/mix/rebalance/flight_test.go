// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/simulation"
)

// places is a snapshot with free capacity for some pods.
type places struct {
	roomy
	left  *int
	taken []string
}

func (p *places) Fits(context.Context, simulation.Question) (simulation.Answer, error) {
	return simulation.Answer{Fits: len(p.taken) < *p.left, Node: "on-demand"}, nil
}
func (p *places) Assume(pod *corev1.Pod, _ string) { p.taken = append(p.taken, pod.Name) }
func (p *places) FitAll(ctx context.Context, all []simulation.Question) ([]simulation.Answer, error) {
	return eachFits(ctx, p, all)
}

// fleeing is a controller of two replicas on a node that departs, and a function that releases one of them.
func fleeing(t *testing.T, left *int) (p *fixture, flee func(pod string, proves bool) rebalance.Result) {
	t.Helper()
	p, _ = leaving(t, 2, 0)
	p.proof.take = func(context.Context) (snapshot, error) { return &places{left: left}, nil }
	g := p.State.Group(p.State.Current("shop")[0].Key)
	return p, func(pod string, proves bool) rebalance.Result {
		for i := range g.Assignments {
			if a := &g.Assignments[i]; a.Pod.Name == pod {
				e := rebalance.Entry{Group: *g, Mix: g.Governing.CapacityMix()}
				return p.flee(t.Context(), rebalance.Action{
					Step: rebalance.StepFlee, Of: e, Flees: true, Proves: proves,
					Verdict: rebalance.Verdict{Reason: rebalance.ReasonMove, Pod: a.Pod, Target: capacity.OnDemand},
				})
			}
		}
		require.Fail(t, "no such replica", pod)
		return rebalance.Result{}
	}
}

// A replacement has no node for a moment, and a snapshot does not have it: its place would be that of another one.
func TestTheLastPlaceIsPromisedOnce(t *testing.T) {
	left := 1
	p, flee := fleeing(t, &left)
	r := flee("web-0", true)
	require.NoError(t, r.Err)
	assert.Equal(t, "on-demand", r.Node)
	full := func() {
		r := flee("web-1", true)
		require.Error(t, r.Err)
		assert.Equal(t, rebalance.ReasonInsufficientCapacity, rebalance.ObstacleOf(r.Err).Reason)
	}
	full()
	p.proof.closeSnapshot()
	full()
	p.Clock.(*clocktesting.FakeClock).Step(rebalance.HoldMisplaced - time.Second)
	full()
	p.Clock.(*clocktesting.FakeClock).Step(time.Second)
	p.proof.closeSnapshot()
	require.NoError(t, flee("web-1", true).Err, "the replacement has a node by now, and the snapshot shows it")
}

func TestAReplicaThatIsLostSoonIsReleasedWithoutAProof(t *testing.T) {
	left := 0
	_, flee := fleeing(t, &left)
	r := flee("web-0", true)
	require.Error(t, r.Err)
	assert.Empty(t, r.Eviction, "it was not released")
	r = flee("web-0", false)
	require.NoError(t, r.Err)
	assert.Equal(t, resultReleased, r.Eviction)
	assert.Empty(t, r.Node)
}
