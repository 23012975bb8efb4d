// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/fleet"
	"berth.dev/berth/internal/mix"
	"berth.dev/berth/internal/policy"
)

// L9: explain named slot 4 of a pod of which the scheduler wrote that slot 2 needs on-demand.
func TestAPendingPodHasTheSlotThatTheSchedulerTried(t *testing.T) {
	m := mix.New(50, 1)
	g := &fleet.Group{Policy: &policy.Policy{Mix: m}}
	seat := fleet.Seat{Place: fleet.Pending, Seat: mix.Seat{Wants: m.TypeOf(4), Pod: mix.Pod{Slot: 4, On: m.TypeOf(4)}}}
	counted := SlotFacts{Number: 4, Type: m.TypeOf(4).String(), From: "count"}
	two := m.TypeOf(2).String()
	other := m.TypeOf(2).Other().String()
	for message, want := range map[string]SlotFacts{
		"0/3 nodes are available: 2 node(s) are " + other + ", slot 2 needs " + two + ", 1 Insufficient cpu.": {Number: 2, Type: two, From: "scheduler"},
		"0/3 nodes are available: 2 node(s) are " + two + ", slot 2 needs " + other + ".":                     counted,
		"0/3 nodes are available: 3 Insufficient cpu.":                                                        counted,
		"slot 99999999 needs spot": counted,
		"":                         counted,
	} {
		pod := &corev1.Pod{}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}}
		e := &explainer{pod: pod, record: &fleet.Pod{}}
		got := e.slotOf(g, seat)
		assert.Equal(t, want, got, message)
		assert.Equal(t, want.Type, got.waitsFor(seat), message)
	}
	settled := seat
	settled.Place = fleet.Settled
	e := &explainer{pod: &corev1.Pod{}, record: &fleet.Pod{}}
	assert.Equal(t, counted, e.slotOf(g, settled))
}
