// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/policy"
)

// An unset wait has another default for pods with the gate. A set one applies to both.
func TestSpotWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		seconds     *int32
		wait, gated time.Duration
	}{
		"unset":         {nil, 0, 15 * time.Minute},
		"not at all":    {new(int32(0)), 0, 0},
		"half a minute": {new(int32(30)), 30 * time.Second, 30 * time.Second},
	} {
		wait, gated := policy.SpotWaits(tc.seconds)
		assert.Equal(t, tc.wait, wait, name)
		assert.Equal(t, tc.gated, gated, name)

		cm := mixNamed("web", 0, 70, nil)
		cm.Spec.SpotWaitSeconds = tc.seconds
		p, _, err := policy.FromCapacityMix(cm)
		require.NoError(t, err)
		assert.Equal(t, tc.wait, p.SpotWait, name)
		assert.Equal(t, tc.gated, p.GatedSpotWait, name)
		assert.Nil(t, p.Tolerations, name)
	}
}

func TestTolerationsOfAMix(t *testing.T) {
	cm := mixNamed("web", 0, 70, nil)
	cm.Spec.Tolerations = &v1alpha1.TolerationsByType{
		Spot: []v1alpha1.Toleration{
			{Key: "spot", Operator: corev1.TolerationOpEqual, Value: "true", Effect: corev1.TaintEffectNoSchedule},
			{Key: "gone", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(9))},
		},
	}
	p, _, err := policy.FromCapacityMix(cm)
	require.NoError(t, err)
	assert.Equal(t, map[capacity.Type][]corev1.Toleration{
		capacity.Spot: {
			{Key: "spot", Operator: corev1.TolerationOpEqual, Value: "true", Effect: corev1.TaintEffectNoSchedule},
			{Key: "gone", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(9))},
		},
		capacity.OnDemand: nil,
	}, p.Tolerations)
}

// Annotations cannot set a wait: the defaults apply.
func TestAMixOfAnnotationsHasTheDefaultWaits(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Annotations = map[string]string{percent: "70", floor: "2"}
	r := policy.Resolver{Prefixes: []string{policy.PrefixBerth}, Mixes: policy.NewStore(), Controllers: known{}}
	p, invalid := r.Resolve(pod)
	require.Empty(t, invalid)
	require.NotNil(t, p)
	assert.Zero(t, p.SpotWait)
	assert.Equal(t, policy.DefaultGatedSpotWait, p.GatedSpotWait)
}
