// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/sim/scenario"
	"berth.dev/berth/simulator/store"
)

// State is what a simulated cluster has at a time. Nothing may change its objects.
type State struct {
	Nodes []corev1.Node
	Pods  []corev1.Pod
	// Moves is how many replicas of each Deployment the rebalancer has evicted.
	Moves map[types.NamespacedName]int
}

// Observe simulates a scenario under a policy, and returns the states at some times before its end.
func Observe(ctx context.Context, s *scenario.Scenario, p Policy, at ...time.Duration) (states []State, err error) {
	_, err = simulated(ctx, s, p, func(time.Duration) {}, func(w *world) {
		for _, after := range at {
			w.clock.At(start.Add(after), func() { states = append(states, w.state()) })
		}
	})
	return states, err
}

func (w *world) state() State {
	s := State{Moves: map[types.NamespacedName]int{}}
	for _, n := range store.List[*corev1.Node](w.store, "") {
		s.Nodes = append(s.Nodes, *n)
	}
	for _, p := range store.List[*corev1.Pod](w.store, "") {
		s.Pods = append(s.Pods, *p)
	}
	for _, of := range w.workloads {
		s.Moves[of.deployment] = of.moves
	}
	return s
}
