// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/gate"
)

// gatedShop has a pod in every state of the gate: 0 waits, 1 was opened, 2 fell
// back, 3 was let go since no one led, 4 waits and has no mix.
func gatedShop() *shop {
	s := &shop{}
	s.node("s1", "spot")
	s.node("o1", "on-demand")
	s.mix("web", 70, 1)
	s.deployment("web", nil, "", "s1", "", "o1")
	s.deployment("free", nil, "")
	wait := func(p *corev1.Pod) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.CapacityMixGate}}
		p.Annotations = nil
	}
	wait(s.pods[0])
	wait(s.pods[4])
	opened := func(p *corev1.Pod, t capacity.Type) {
		gate.Annotate(p, map[string]string{v1alpha1.ClaimAnnotation: gate.ClaimOf(p, t), v1alpha1.CapacityTypeAnnotation: "spot"})
		gate.Label{Key: capacity.KarpenterCapacityType, Spot: "spot", OnDemand: "on-demand"}.Limit(&p.Spec, t)
	}
	opened(s.pods[1], capacity.Spot)
	opened(s.pods[2], capacity.OnDemand)
	s.pods[2].Annotations[v1alpha1.SlotAnnotation] = "2"
	s.pods[2].Annotations[v1alpha1.FallbackAnnotation] = "3/2026-06-01T12:20:00Z"
	s.pods[3].Annotations = map[string]string{v1alpha1.GateOpenedAnnotation: v1alpha1.GateOpenedNoLeader}
	return s
}

func TestExplainOfThePodsWithTheGate(t *testing.T) {
	golden(t, "explain-gates.txt", explained(t, gatedShop().cluster(t), nil))
}

func TestDoctorOnGates(t *testing.T) {
	const old = 5 * time.Minute
	for name, tc := range map[string]struct {
		change     func(*shop)
		leaderless bool
		level      Level
		says       string
	}{
		"nobody leads":                {func(*shop) {}, true, Fail, "no scheduler leads, and no slot comes for 2 gated pods: "},
		"one leads and does not open": {func(s *shop) { s.pods[0].CreationTimestamp = ago(old) }, false, Warn, "although a scheduler leads, for "},
		"a gate for nothing":          {func(*shop) {}, false, Warn, "no mix governs 1 gated pod: "},
		"all is well":                 {func(s *shop) { s.pods = s.pods[1:4] }, false, OK, "no gated pod waits too long"},
		"one that waits for a moment": {func(s *shop) { s.pods = s.pods[:4]; s.pods[0].CreationTimestamp = ago(time.Second) }, false, OK, "no gated pod waits too long"},
		"let go, and nobody has a mix": {func(s *shop) {
			s.pods = s.pods[4:]
			s.pods[0].Spec.SchedulingGates = nil
			s.pods[0].Annotations = map[string]string{v1alpha1.GateOpenedAnnotation: v1alpha1.GateOpenedNoMix}
		}, false, Warn, "no mix governs"},
	} {
		t.Run(name, func(t *testing.T) {
			s := gatedShop()
			tc.change(s)
			p := &patient{cluster: s.cluster(t), now: now, leaderless: tc.leaderless}
			r := &Report{}
			p.gates(r)
			found := false
			for _, f := range r.Findings {
				found = found || f.Level == tc.level && strings.Contains(f.Message, tc.says)
			}
			assert.True(t, found, "%+v", r.Findings)
			if tc.level == OK {
				assert.Len(t, r.Findings, 1)
			}
		})
	}
}
