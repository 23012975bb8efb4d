// SPDX-License-Identifier: Apache-2.0

package fallback_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// "An on-demand slot with no free capacity never stalls the spot slots behind it, and a
// workload never runs more spot than its rule because on-demand was full."
func TestSlotsThatWaitDoNotStallTheSlotsBehindThem(t *testing.T) {
	const replicas = 10
	m := split.New(70, 2)
	cases := []struct {
		name                   string
		spotCPUs, onDemandCPUs string
		want                   testenv.Split
	}{
		{"room for one of three on-demand slots", "16", "1", testenv.Split{Spot: 7, OnDemand: 1, Pending: 2}},
		{"room for two of seven spot slots", "2", "16", testenv.Split{Spot: 2, OnDemand: 3, Pending: 5}},
	}
	lane := func(i int) testenv.Lane { return testenv.Lane(fmt.Sprintf("case-%d", i)) }
	w := testenv.New(t)
	for i, c := range cases {
		w.AddNodes(lane(i).Node("spot", spot, c.spotCPUs), lane(i).Node("on-demand", onDemand, c.onDemandCPUs))
		w.Create(builders.CapacityMix(string(lane(i)), m.SpotPercent, m.MinOnDemand, spotOrWait, onDemandOrWait),
			builders.Deployment(string(lane(i)), replicas, oneCPU, lane(i).Pods))
	}
	requireSplits := func() {
		t.Helper()
		check := func() (bool, string) {
			for i, c := range cases {
				if s := w.Split(string(lane(i))); s != c.want {
					return false, fmt.Sprintf("%s: %s", c.name, s)
				}
			}
			return true, ""
		}
		w.Eventually("all slots with room are placed", check)
		w.Always(stays, "the others wait", check)
	}
	requireSplits()

	// Half of what runs goes; its replacements leave the waiting slots waiting too.
	for i := range cases {
		running := testenv.Where(w.Live(string(lane(i))), testenv.Bound)
		for _, p := range running[:len(running)/2] {
			w.Delete(&p)
		}
	}
	requireSplits()
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			types := w.Types()
			for slot, p := range w.Slots(testenv.Where(w.Live(string(lane(i))), testenv.Bound)) {
				require.Less(t, slot, replicas)
				assert.Equal(t, m.TypeOf(slot), types[p.Spec.NodeName], "type of slot %d", slot)
			}
		})
	}
}
