// SPDX-License-Identifier: Apache-2.0

package inputs_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

const resource = "capacitymixes"

func TestAMixOlderThanItsValidationRuleGovernsNothing(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	everything := func(m *v1alpha1.CapacityMix) { m.Spec.Selector = v1alpha1.PodSelector{} }
	w.CreateInvalid(resource, builders.CapacityMix("stored", 150, 0, everything))

	s := second(w, nil)
	w.Create(builders.Deployment("web", 5))
	assert.Equal(t, map[string]int{"": 5}, mixSources(w.WaitBound("web", 5)), "it governs nothing")
	assertWarned(w, "stored", v1alpha1.EventReasonInvalidCapacityMix, "spotPercent", "150")
	assert.Equal(t, 1, w.Metric(s, "berth_scheduler_invalid_mixes_total", map[string]string{"kind": "capacitymix"}))
	// A valid one governs, although it is younger.
	w.Create(builders.CapacityMix("other", 60, 1, everything), builders.Deployment("other", 5))
	w.RequireExact("other", split.New(60, 1), 5)
}

func TestSchedulerWithoutTheCRDIsNotReadyUntilItIsInstalled(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.RequireWaitsForCRD(resource)
	w.Create(builders.CapacityMix("mixed", 60, 1), builders.Deployment("mixed", 5))
	w.RequireExact("mixed", split.New(60, 1), 5)
}

func TestWithoutTheCRDTheSchedulerGivesUpAfterTheSyncTimeout(t *testing.T) {
	testenv.New(t).RequireGivesUpWithoutCRD("CapacityMix", resource)
}
