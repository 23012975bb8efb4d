// SPDX-License-Identifier: Apache-2.0

package accounts_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestTheEventsOfAWorkloadCountEveryMove(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.Create(builders.CapacityMix("web", 90, 2, builders.Rebalance(func(r *v1alpha1.RebalanceSpec) { r.MaxConcurrent = new(int32(10)) })), builders.Deployment("web", 40))
	w.WaitExact("web", split.New(90, 2), 40, testenv.SettleTimeout)
	w.Controller(testenv.Impatient, func(c *controller.Configuration) { c.Mix.Rebalance.ClusterMaxConcurrent = 10 })
	w.WaitSatisfied("web")
	w.ChangeMix("web", func(m *v1alpha1.CapacityMix) { m.Spec.SpotPercent = 0 })
	w.WaitRepaired("web", split.New(0, 2), 40, 2*testenv.SettleTimeout)
	moved := len(w.EvictionsOf("web"))
	assert.GreaterOrEqual(t, moved, 36)
	objects := 0
	w.Eventually(fmt.Sprintf("events about %d moves", moved), func() (bool, string) {
		counted := 0
		objects = 0
		for _, e := range w.Events("web") {
			if e.Reason == v1alpha1.EventReasonMoved {
				counted += int(e.Count)
				objects++
			}
		}
		return counted == moved, fmt.Sprintf("%d counted in %d objects", counted, objects)
	})
	assert.LessOrEqual(t, objects, 10, "similar events become one")
}
