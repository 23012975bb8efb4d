// SPDX-License-Identifier: Apache-2.0

package inputs_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestTheMetricsCountPlacementsByWhatWasWantedAndWhatWasHad(t *testing.T) {
	few := func(n *cluster.NodeSpec) { n.Pods = 4 }
	w := testenv.New(t, append(cluster.Nodes("spot", 1, few), cluster.Nodes("on-demand", 2)...)...)
	s := second(w, nil)
	w.Create(builders.CapacityMix("web", 70, 0), builders.Deployment("web", 10))
	pods := w.WaitBound("web", 10)
	assert.Equal(t, 4, w.SplitOf(pods).Spot, "as many as the spot nodes take")
	w.Slots(pods)
	placed := func(wants, on string) int {
		return w.Metric(s, "berth_scheduler_placements_total", map[string]string{"slot_type": wants, "node_type": on})
	}
	assert.Equal(t, 4, placed("spot", "spot"))
	assert.Equal(t, 3, placed("spot", "on-demand"), "borrowed")
	assert.Equal(t, 3, placed("on-demand", "on-demand"))
	assert.Equal(t, 0, placed("on-demand", "spot"))
	moved := func(from, to string) int {
		return w.Metric(s, "berth_scheduler_stage_transitions_total", map[string]string{"from": from, "to": to})
	}
	assert.Equal(t, 3, moved("type", "borrow"), "one for each that borrowed")
	assert.Equal(t, 3, w.Metric(s, "berth_scheduler_stage_transitions_total", nil), "and no other")
	assert.Equal(t, 0, w.Metric(s, "berth_scheduler_pods_bound_without_slot_total", nil))
	testenv.Becomes(w, "an event for each that borrowed", 3, func() (borrowed int) {
		for _, p := range pods {
			for _, e := range w.Events(p.Name) {
				if e.Reason == v1alpha1.EventReasonBorrowed {
					borrowed++
				}
			}
		}
		return borrowed
	})
}

func TestAProfileThatBindsWithoutTheAnnotationsIsCounted(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	s := w.RunScheduler(w.Variant(testenv.SecondScheduler, func(c testenv.Config) {
		for _, profile := range c.Profiles() {
			profile["plugins"].(map[string]any)["bind"] = map[string]any{
				"enabled":  []any{map[string]any{"name": "DefaultBinder"}, map[string]any{"name": "CapacityMix"}},
				"disabled": []any{map[string]any{"name": "*"}},
			}
		}
	}))
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10))
	pods := w.WaitBound("web", 10)
	assert.Equal(t, map[string]int{"": 10}, mixSources(pods))
	assert.Equal(t, split.New(70, 2).Spot(10), w.SplitOf(pods).Spot, "the split is kept all the same")
	testenv.Becomes(w, "all ten are counted", 10, func() int { return w.Metric(s, "berth_scheduler_pods_bound_without_slot_total", nil) })
	assert.Equal(t, 0, w.Metric(s, "berth_scheduler_placements_total", nil))
}
