// SPDX-License-Identifier: Apache-2.0

package specs

import (
	"slices"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// SpotComesBack places 10 replicas while no spot node takes pods, and lets the controller, which must be impatient, bring
// seven of them back when the nodes do: one at a time, and no other.
func SpotComesBack(w *testenv.World, spotNodes ...string) {
	w.T.Helper()
	const app = "back"
	w.Cordon(true, spotNodes...)
	w.T.Cleanup(func() { w.Cordon(false, spotNodes...) })
	w.Create(builders.CapacityMix(app, 70, 2), builders.PodDisruptionBudget(app, builders.MinAvailable("9")), builders.Deployment(app, 10))
	w.WaitReady(app, 10)
	// All ten are on on-demand, and nothing may be done about it.
	w.WaitStatus(app, "blocked because of missing room", func(s *v1alpha1.CapacityMixStatus) bool {
		return testenv.BlockedBy(s, "InsufficientCapacity") && s.Actual.OnDemand == 10 && s.Desired.Spot == 7 &&
			testenv.Condition(s, v1alpha1.ConditionSatisfied, false, v1alpha1.ReasonMixNotSatisfied) &&
			testenv.Condition(s, v1alpha1.ConditionRebalancing, false, "InsufficientCapacity")
	})
	if w.Cluster != nil { // its audit log is at hand
		assert.Empty(w.T, w.Evictions())
	}
	before := w.Live(app)

	recording := w.Record(app)
	w.Cordon(false, spotNodes...)
	w.WaitSatisfied(app)
	w.RequireExact(app, split.New(70, 2), 10)
	onDemand, all := recording.FewestReady(capacity.OnDemand, 10)
	assert.GreaterOrEqual(w.T, onDemand, 2, "Ready replicas on on-demand at any instant")
	assert.GreaterOrEqual(w.T, all, 9, "Ready replicas at any instant: one at a time")
	after := w.Live(app)
	stayed := slices.DeleteFunc(before, func(p corev1.Pod) bool {
		return !slices.ContainsFunc(after, func(now corev1.Pod) bool { return now.UID == p.UID })
	})
	assert.Len(w.T, stayed, 3, "no replica moved but those that had to")
}
