// SPDX-License-Identifier: Apache-2.0

package surge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// The ReplicaSet removes pods that are not Ready first, and these are the replacements. What is left is exact at the end, and at rest.
func TestAScaleDownDuringAReleaseIsExactAndThenNothingIsWritten(t *testing.T) {
	w := testenv.New(t, cluster.Nodes(onDemand, 4)...)
	web := builders.Deployment("web", 10, builders.ReadyAfter(3*time.Second))
	w.Create(builders.CapacityMix("web", 50, 1, surge, builders.ProtectFloor), web)
	w.WaitReady("web", 10)
	recording := w.Record("web")
	w.AddNodes(cluster.Nodes(spot, 4)...)
	w.Controller(testenv.Impatient)
	waitReleased(w, "web")
	w.Scale(web, 6)
	left := w.WaitRepaired("web", split.New(50, 1), 6, 2*testenv.SettleTimeout)
	slots := w.Slots(left)
	for slot := range 6 {
		assert.Contains(t, slots, slot, "the highest slots are gone")
	}
	_, all := recording.FewestReady(capacity.OnDemand, 10)
	assert.GreaterOrEqual(t, all, 6, "fewest Ready replicas at any instant")

	writes := func(since time.Time) (bool, string) {
		list := w.WritesOf("berth-controller", since)
		return len(list) == 0, strings.Join(list, "\n")
	}
	w.Eventually("the controller is at rest", func() (bool, string) { return writes(time.Now().Add(-testenv.Short)) })
	rest := time.Now()
	w.Always(testenv.Length(testenv.Short, 10*time.Minute), "nothing is written", func() (bool, string) { return writes(rest) })
}
