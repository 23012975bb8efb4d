// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/internal/mix/rebalance"
)

func TestAProofHasTheQuarantineThatItsMixAvoids(t *testing.T) {
	p, _, _ := lwsController(t, 2)
	question := func(mix governing.Mix, to capacity.Type, pod *corev1.Pod) bool {
		a := rebalance.Action{}
		a.Verdict.Target, a.Of.Group.Governing = to, &mix
		return p.proof.question(t.Context(), &a, pod, nil, nil).Quarantine != nil
	}
	pod, avoids := &corev1.Pod{}, governing.Mix{AvoidInterrupted: true}
	assert.False(t, question(avoids, capacity.Spot, pod), "nothing counts interruptions")
	p.proof.Quarantine = func(context.Context) *interruptions.Quarantine {
		return &interruptions.Quarantine{Until: map[string]time.Time{"a": {}}}
	}
	assert.True(t, question(avoids, capacity.Spot, pod))
	assert.False(t, question(avoids, capacity.OnDemand, pod), "a quarantine is of spot nodes")
	assert.False(t, question(governing.Mix{}, capacity.Spot, pod), "it is a preference")

	gated := &corev1.Pod{Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}}}}
	assert.False(t, question(avoids, capacity.Spot, gated), "it may not fall back")
	avoids.BorrowOnDemand = true
	assert.True(t, question(avoids, capacity.Spot, gated))
}
