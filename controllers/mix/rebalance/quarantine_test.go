// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/test/builders"
)

var someQuarantine = &interruptions.Quarantine{Until: map[string]time.Time{"a": {}}}

// It is read from the API server.
func TestTheQuarantineIsReadOnceForASnapshot(t *testing.T) {
	p, _, asked := lwsController(t, 2, builders.AvoidInterrupted)
	p.restarts(rebalance.RestartWhole)
	reads, takes, answer, take := 0, 0, someQuarantine, p.proof.take
	p.proof.take = func(ctx context.Context) (snapshot, error) { takes++; return take(ctx) }
	p.proof.Quarantine = func(context.Context) *interruptions.Quarantine { reads++; return answer }
	p.reconcile(t, "shop")
	require.Len(t, *asked, 2)
	for _, q := range *asked {
		assert.Same(t, someQuarantine, q.Quarantine)
	}
	assert.Equal(t, takes, reads)
	p.proof.closeSnapshot()
	answer, reads = nil, 0
	for range 2 {
		require.NoError(t, p.proof.takeSnapshot(t.Context()))
	}
	assert.Equal(t, 1, reads)
	assert.Nil(t, p.proof.quarantine, "it has ended")
}

func TestAProofHasTheQuarantineThatItsMixAvoids(t *testing.T) {
	p, _, _ := lwsController(t, 2)
	question := func(mix governing.Mix, to capacity.Type, pod *corev1.Pod) bool {
		a := rebalance.Action{}
		a.Verdict.Target, a.Of.Group.Governing = to, &mix
		return p.proof.question(&a, pod, nil, nil).Quarantine != nil
	}
	pod, avoids := &corev1.Pod{}, governing.Mix{AvoidInterrupted: true}
	assert.False(t, question(avoids, capacity.Spot, pod), "nothing counts interruptions")
	p.proof.quarantine = someQuarantine
	assert.True(t, question(avoids, capacity.Spot, pod))
	assert.False(t, question(avoids, capacity.OnDemand, pod), "a quarantine is of spot nodes")
	assert.False(t, question(governing.Mix{}, capacity.Spot, pod), "it is a preference")

	gated := &corev1.Pod{Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}}}}
	assert.False(t, question(avoids, capacity.Spot, gated), "it may not fall back")
	avoids.BorrowOnDemand = true
	assert.True(t, question(avoids, capacity.Spot, gated))
}
