// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
)

// scaledController is a strayController whose owner has a scale subresource.
func scaledController(t *testing.T, pods int) (p *fixture, s *server, replicas *int) {
	t.Helper()
	p, s = strayController(t, pods)
	p.Defaults.MaxConcurrent, replicas = 1, &pods
	p.readAtOnce(func(_ context.Context, w clusterstate.Workload) (rebalance.Scale, error) {
		assert.Equal(t, "CloneSet web", w.String())
		return rebalance.Scale{Replicas: *replicas, Known: true}, nil
	})
	return p, s, replicas
}

// readAtOnce reads scales in the foreground.
func (p *fixture) readAtOnce(read scales) {
	p.scales = newScaleReader(read, p.Clock, p.Changed)
	p.scales.start = func(f func()) { f() }
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

func TestAMoveWaitsForPodsThatTheScaleRequests(t *testing.T) {
	p, s, replicas := scaledController(t, 4)
	*replicas = 5
	p.reconcile(t, "shop")
	assert.Empty(t, s.evicted)
	assert.Equal(t, rebalance.ReasonReplicasMissing, p.reasonOf(t, ""))
	*replicas = 4
	p.again(t, rebalance.HoldRefused)
	assert.NotEmpty(t, s.evicted)
}

func TestAScaleThatCannotBeReadHoldsAMove(t *testing.T) {
	p, s, _ := scaledController(t, 4)
	p.readAtOnce(func(context.Context, clusterstate.Workload) (rebalance.Scale, error) {
		return rebalance.Scale{}, errors.New("not now")
	})
	p.reconcile(t, "shop")
	assert.Empty(t, s.evicted)
	assert.Equal(t, rebalance.ReasonCapacityUnproven, p.reasonOf(t, ""))
}

// The scale determines how many pods must be back once it has been the number of pods: an owner may count something else.
func TestTheRequiredPodsFollowTheScale(t *testing.T) {
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
				p.again(t, scaleAge)
				assert.Equal(t, c.want[i], p.had(), "after the scale became %d", n)
			}
		})
	}
}

// The server of a tenant's kind that does not answer concerns the workloads whose owners it has: neither does the worker wait
// for it, nor does it begin the grace of the cluster.
func TestAScaleThatIsNotAnsweredHoldsItsWorkloadOnly(t *testing.T) {
	p, s, _ := scaledController(t, 4)
	released := make(chan struct{})
	p.scales = newScaleReader(func(ctx context.Context, _ clusterstate.Workload) (rebalance.Scale, error) {
		select {
		case <-released:
			return rebalance.Scale{}, apierrors.NewServiceUnavailable("no endpoints")
		case <-ctx.Done():
			return rebalance.Scale{}, ctx.Err()
		}
	}, p.Clock, p.Changed)
	p.reconcile(t, "shop") // it returns
	assert.Empty(t, s.evicted)
	assert.Equal(t, rebalance.ReasonStaleView, p.reasonOf(t, ""))
	close(released)
	assert.Eventually(t, func() bool {
		p.again(t, rebalance.HoldUnread)
		return p.reasonOf(t, "") == rebalance.ReasonCapacityUnproven
	}, 10*time.Second, time.Millisecond)
	assert.Empty(t, s.evicted)
	assert.Zero(t, p.clusterNow().GraceUntil)
}

// A ReplicationController is not watched, and its scale has no minReadySeconds.
func TestAPodOfAnOwnerThatIsNotWatchedMustBeAvailable(t *testing.T) {
	p, s, replicas := scaledController(t, 4)
	for name, pod := range s.pods {
		pod = pod.DeepCopy()
		pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(p.Clock.Now())
		s.pods[name] = pod
		p.State.SetPod(pod)
	}
	p.readAtOnce(func(context.Context, clusterstate.Workload) (rebalance.Scale, error) {
		return rebalance.Scale{Replicas: *replicas, Known: true, MinReady: time.Minute}, nil
	})
	p.reconcile(t, "shop")
	p.again(t, time.Minute-time.Second)
	assert.Empty(t, s.evicted)
	assert.Equal(t, rebalance.ReasonNotReady, p.reasonOf(t, ""))
	p.again(t, time.Second)
	assert.NotEmpty(t, s.evicted)
}
