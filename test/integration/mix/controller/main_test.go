// SPDX-License-Identifier: Apache-2.0

// Package controller_test ends the companion controller and the API server at
// bad moments, and looks at what the controller may do and does.
package controller_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{Rights: []testenv.Rights{rights}}))
}

const (
	replicas = 10
	// away is how many of them belong on spot and are not there.
	away = 7
	// holds is how long something that must not happen is watched for: twice the
	// interval at which the impatient controller looks at everything.
	holds = 11 * time.Second
)

var seventy = split.New(70, 2)

// stray makes a world with a workload that is on on-demand as a whole, and capacity
// on spot for what belongs there. Its pods take a while to be Ready, so that a
// move takes as long.
func stray(t *testing.T, ready time.Duration) *testenv.World {
	t.Helper()
	w := testenv.New(t, cluster.Nodes("on-demand", 4)...)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", replicas, builders.ReadyAfter(ready)))
	w.WaitReady("web", replicas)
	w.AddNodes(cluster.Nodes("spot", 4)...)
	return w
}

// assertEvicted demands that at most so many pods were evicted, and none twice.
func assertEvicted(w *testenv.World, most int) {
	w.T.Helper()
	var names []string
	for _, e := range w.Evictions() {
		assert.True(w.T, e.OK(), "an eviction that was refused: %s", e)
		names = append(names, e.Name)
	}
	assert.LessOrEqual(w.T, len(names), most, "evictions")
	slices.Sort(names)
	assert.Equal(w.T, slices.Compact(slices.Clone(names)), names, "no pod is evicted twice")
}
