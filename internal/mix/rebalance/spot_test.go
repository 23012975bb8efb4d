// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/fallback"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/split"
)

// fellBack marks a replica as fallen back.
func fellBack(s *clusterstate.Assignment, mark string) {
	s.Pod.Annotations = map[string]string{v1alpha1.ClaimAnnotation: string(s.Pod.UID) + "/on-demand", v1alpha1.FallbackAnnotation: mark}
}

// nowhere is a cluster without free capacity: what may move needs a node that has to be launched.
func nowhere(capacity.Type, *clusterstate.Pod) bool { return false }

// Whether spot comes is a question about nodes that have to be launched. The scheduler limits the replacement to spot as well.
func TestAReplicaReturnsToAFreeSpotPlaceAtOnce(t *testing.T) {
	in := outOfMix()
	in.History.InFlight = 1
	for i := range in.Group.Assignments {
		fellBack(&in.Group.Assignments[i], "9/2026-06-01T13:00:00Z")
	}
	v := decide(in)
	require.Equal(t, rebalance.ReasonMove, v.Reason)
	in.Skip = map[string]rebalance.Verdict{}
	for _, s := range in.Group.Assignments {
		in.Skip[string(s.Pod.UID)] = rebalance.Verdict{Reason: rebalance.ReasonInsufficientCapacity, Pod: s.Pod, Target: sp}
	}
	assert.Equal(t, rebalance.ReasonSpotUnavailable, decide(in).Reason, "the filters of the scheduler do not admit it there")
	in.Settings.Provisioning = rebalance.WithPlaceholder
	_, ok := rebalance.Provision(in)
	assert.False(t, ok, "nor is a node requested before spot is tried again")
}

// Spot was tried again, and did not come: the marks of older replicas are over.
func TestTheNewestFallbackMarkCounts(t *testing.T) {
	in := outOfMix()
	in.MayFit = nowhere
	fellBack(&in.Group.Assignments[4], "3/2026-06-01T11:00:00Z")
	assert.Equal(t, rebalance.ReasonInsufficientCapacity, decide(in).Reason)
	fellBack(&in.Group.Assignments[2], "4/2026-06-01T12:00:01Z")
	v := decide(in)
	assert.Equal(t, rebalance.ReasonSpotUnavailable, v.Reason)
	mark, n := rebalance.FellBack(&in.Group)
	assert.Equal(t, fallback.Mark{Failures: 4, RetryAt: noon.Add(1e9)}, mark)
	assert.Equal(t, 2, n)
	copied := maps.Clone(in.Group.Assignments[2].Pod.Annotations)
	in.Group.Assignments[2].Pod.Annotations = nil
	in.Group.Assignments[3].Pod.Annotations = copied
	in.Group.Assignments[3].Pod.UID = types.UID("another")
	assert.Equal(t, rebalance.ReasonInsufficientCapacity, decide(in).Reason, "the copy of an annotation counts for nothing")
}

func TestMissingSpotPreventsNoMoveToOnDemand(t *testing.T) {
	in := outOfMix()
	in.Group = groupOn(split.New(70, 2), sp, sp, sp, sp, od)
	fellBack(&in.Group.Assignments[4], "3/2026-06-01T12:20:00Z")
	assert.Equal(t, rebalance.ReasonMove, decide(in).Reason)
}

// As many at once as the circuit breaker lets try: the others would fall back again.
func TestReplicasReturnToSpotInStepsThatDouble(t *testing.T) {
	in := outOfMix()
	in.MayFit = nowhere
	in.Settings.MaxConcurrent, in.Cluster.Limit = 8, 8
	in.Group = groupOn(split.New(100, 2), slices.Repeat([]capacity.Type{od}, 16)...)
	for i := range in.Group.Assignments {
		fellBack(&in.Group.Assignments[i], "3/2026-06-01T11:00:00Z")
	}
	next := 2 // slots 0 and 1 are on-demand
	for _, allowed := range []int{1, 2, 4, 7} {
		for in.History.InFlight = range allowed {
			require.Equal(t, rebalance.ReasonInsufficientCapacity, decide(in).Reason, "%d of %d", in.History.InFlight, allowed)
		}
		if in.History.InFlight = allowed; allowed < 7 {
			v := decide(in)
			require.Equal(t, rebalance.ReasonMixBudget, v.Reason)
			require.Contains(t, v.Message, fmt.Sprintf("%d of at most %d replicas try them again", allowed, allowed))
		}
		for range min(allowed, 16-next) {
			in.Group.Assignments[next] = replica(in.Group.Governing.Mix, next, sp)
			in.Group.Assignments[next].Pod.Created = noon.Add(-time.Minute).UnixNano()
			next++
		}
	}
}

// Where the circuit breaker was closed all along, nothing holds the others back.
func TestAfterASingleFailureReplicasReturnAsTheMixAllows(t *testing.T) {
	in := outOfMix()
	in.MayFit = nowhere
	in.History.InFlight = 1
	fellBack(&in.Group.Assignments[4], "2/2026-06-01T11:00:00Z")
	assert.Equal(t, rebalance.ReasonInsufficientCapacity, decide(in).Reason)
	fellBack(&in.Group.Assignments[4], "3/2026-06-01T11:00:00Z")
	assert.Equal(t, rebalance.ReasonMixBudget, decide(in).Reason)
	in.Group.Assignments[2].Pod.Created = noon.UnixNano()
	assert.Equal(t, rebalance.ReasonMixBudget, decide(in).Reason, "one that was made since, on on-demand")
	in.Group.Assignments[3].Pod.Created = noon.Add(-59 * time.Minute).UnixNano()
	assert.Equal(t, rebalance.ReasonInsufficientCapacity, decide(in).Reason, "one runs on spot since")
}
