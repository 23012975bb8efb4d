// SPDX-License-Identifier: Apache-2.0

package rebalance_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/internal/mix/rebalance"
)

func TestNothingMovesBeforeEveryReplicaIsAvailable(t *testing.T) {
	in := outOfMix()
	now := in.Cluster.Now
	in.Group.MinReady = time.Minute
	for i := range in.Group.Assignments {
		in.Group.Assignments[i].Pod.ReadySince = now.Add(-time.Hour).Unix()
	}
	require.Equal(t, rebalance.ReasonMove, rebalance.Choose(in).Reason)

	in.Group.Assignments[0].Pod.ReadySince = now.Add(-10 * time.Second).Unix()
	in.Group.Assignments[1].Pod.ReadySince = now.Add(-5 * time.Second).Unix()
	v := rebalance.Choose(in)
	assert.Equal(t, rebalance.ReasonNotReady, v.Reason)
	assert.True(t, v.RetryAt.Equal(now.Add(55*time.Second)), "time alone ends it: %s", v.RetryAt)
	assert.Contains(t, v.Message, in.Group.Assignments[1].Pod.Name)
	in.Cluster.Now = v.RetryAt
	assert.Equal(t, rebalance.ReasonMove, rebalance.Choose(in).Reason)

	in.Cluster.Now, in.Group.Assignments[0].Pod.Ready = now, false
	v = rebalance.Choose(in)
	assert.Equal(t, rebalance.ReasonNotReady, v.Reason)
	assert.Zero(t, v.RetryAt, "time does not make a pod Ready")
}

func TestTheTimeOfAVerdictAboutAvailabilityIsWhenItEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := outOfMix()
		now := in.Cluster.Now
		in.Group.MinReady = time.Duration(rapid.IntRange(0, 100).Draw(t, "minReadySeconds")) * time.Second
		for i := range in.Group.Assignments {
			ago := time.Duration(rapid.IntRange(0, 200).Draw(t, "Ready for seconds")) * time.Second
			in.Group.Assignments[i].Pod.ReadySince = now.Add(-ago).Unix()
		}
		v := rebalance.Choose(in)
		if v.Reason == rebalance.ReasonMove {
			require.Equal(t, len(in.Group.Assignments), rebalance.Available(&in.Group, now))
			return
		}
		require.Equal(t, rebalance.ReasonNotReady, v.Reason)
		in.Cluster.Now = v.RetryAt.Add(-1)
		require.Equal(t, v, rebalance.Choose(in), "it is the same until then")
		in.Cluster.Now = v.RetryAt
		require.Equal(t, rebalance.ReasonMove, rebalance.Choose(in).Reason)
	})
}

// Karpenter lets the annotation end by itself: so do the verdict, the status and the explanation.
func TestAnAnnotationThatEndsByItselfNamesItsEnd(t *testing.T) {
	in := outOfMix()
	require.Equal(t, rebalance.ReasonMove, rebalance.Choose(in).Reason)
	for i := range in.Group.Assignments {
		p := in.Group.Assignments[i].Pod
		p.Created = in.Cluster.Now.Add(-time.Hour).UnixNano()
		p.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "90m"}
	}
	v := rebalance.Choose(in)
	end := in.Cluster.Now.Add(30 * time.Minute)
	assert.Equal(t, rebalance.ReasonDoNotDisrupt, v.Reason)
	assert.True(t, v.RetryAt.Equal(end), "until %s", v.RetryAt)
	assert.Contains(t, v.Message, "karpenter.sh/do-not-disrupt: 90m, which ends at "+end.UTC().Format(time.RFC3339))
	in.Cluster.Now = end.Add(-1)
	assert.Equal(t, v, rebalance.Choose(in))
	in.Cluster.Now = end
	assert.Equal(t, rebalance.ReasonMove, rebalance.Choose(in).Reason)
}
