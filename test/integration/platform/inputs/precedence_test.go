// SPDX-License-Identifier: Apache-2.0

package inputs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestAPodsMixIsResolvedInTheDocumentedOrder(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	second(w, map[string]any{"defaultMix": map[string]any{"spotPercent": 20}})
	percentOf := func(p string) map[string]string { return map[string]string{percent: p} }
	w.Create(
		builders.CapacityMix("mixed", 40, 0), builders.CapacityMix("controlled", 40, 0),
		builders.CapacityMix("podded", 40, 0), builders.CapacityMix("bad", 40, 0))
	w.Create(
		builders.Deployment("plain", 10),
		builders.Deployment("mixed", 10),
		on(builders.Deployment("controlled", 10), percentOf("60")),
		on(builders.Deployment("podded", 10, template(percentOf("80"))), percentOf("60")),
		on(builders.Deployment("bad", 10, template(percentOf("abc"))), percentOf("-5")))
	for app, want := range map[string]struct {
		source string
		spot   int32
	}{
		"plain":      {"default", 20},
		"mixed":      {"capacitymix/mixed", 40},
		"controlled": {"annotations/controller", 60},
		"podded":     {"annotations/pod", 80},
		"bad":        {"capacitymix/bad", 40}, // what cannot be read does not count
	} {
		pods := w.RequireExact(app, split.New(want.spot, 0), 10)
		assert.Equal(t, map[string]int{want.source: 10}, mixSources(pods), app)
	}
}

// older creates a CapacityMix and lets its creation second pass: timestamps of
// objects have no more than that.
func older(w *testenv.World, m *v1alpha1.CapacityMix) {
	w.T.Helper()
	w.Create(m)
	w.Eventually("a later second", func() (bool, string) {
		return time.Now().Truncate(time.Second).After(m.CreationTimestamp.Time), time.Now().String()
	})
}

func TestTheOldestMixGovernsUntilItIsDeleted(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	second(w, nil)
	selectsWeb := func(m *v1alpha1.CapacityMix) { m.Spec.Selector.MatchLabels = builders.Labels("web") }
	first, next := builders.CapacityMix("z-first", 70, 0, selectsWeb), builders.CapacityMix("a-next", 20, 0, selectsWeb)
	older(w, first)
	w.Create(next)
	web := builders.Deployment("web", 10)
	w.Create(web)
	assert.Equal(t, map[string]int{"capacitymix/z-first": 10}, mixSources(w.RequireExact("web", split.New(70, 0), 10)))

	w.Delete(first)
	before := map[string]bool{}
	for _, p := range w.Live("web") {
		before[p.Name] = true
	}
	w.Scale(web, 20)
	pods := w.WaitBound("web", 20)
	assert.Equal(t, map[string]int{"capacitymix/z-first": 10, "capacitymix/a-next": 10}, mixSources(pods))
	rule, types := split.New(20, 0), w.Types()
	for slot, p := range w.Slots(pods) {
		if !before[p.Name] {
			assert.Equal(t, rule.TypeOf(slot), types[p.Spec.NodeName], "slot %d of a pod that came later", slot)
		}
	}
	w.Create(builders.Deployment("later", 1)) // no mix selects it
	assert.Equal(t, map[string]int{"": 1}, mixSources(w.WaitBound("later", 1)))
}

func TestADeletedMixReleasesThePodsThatWaitForIt(t *testing.T) {
	w := testenv.New(t, cluster.Nodes("spot", 2)...)
	second(w, nil)
	m := builders.CapacityMix("web", 50, 0)
	w.Create(m, builders.Deployment("web", 4))
	half := testenv.Split{Spot: 2, Pending: 2}
	w.WaitSplit("web", "the on-demand slots wait", half)
	w.StaysSplit(testenv.Short, "web", "the on-demand slots wait", half)
	w.Delete(m)
	w.UpTo(5*time.Second).WaitSplit("web", "nothing keeps the pods", testenv.Split{Spot: 4})
	assert.Equal(t, map[string]int{"capacitymix/web": 2, "": 2}, mixSources(w.Live("web")))
}

func TestAnEmptySelectorSelectsAllPodsOfItsNamespace(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	second(w, nil)
	w.Create(builders.CapacityMix("all", 50, 0, func(m *v1alpha1.CapacityMix) { m.Spec.Selector = v1alpha1.PodSelector{} }))
	elsewhere := *w
	elsewhere.Namespace = "default"
	d := builders.Deployment("elsewhere", 4)
	elsewhere.Create(d)
	t.Cleanup(func() { elsewhere.Ctx = w.Ctx; elsewhere.Delete(d) })
	for i := range 3 {
		app := fmt.Sprintf("app-%d", i)
		w.Create(builders.Deployment(app, 5))
		assert.Equal(t, map[string]int{"capacitymix/all": 5}, mixSources(w.RequireExact(app, split.New(50, 0), 5)))
	}
	assert.Equal(t, map[string]int{"": 4}, mixSources(elsewhere.WaitBound("elsewhere", 4)))
}

func TestTheMetricsCountPlacementsByDesiredAndActualType(t *testing.T) {
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
