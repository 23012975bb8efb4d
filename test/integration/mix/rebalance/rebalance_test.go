// SPDX-License-Identifier: Apache-2.0

// Package rebalance_test breaks the mix of workloads on a real control plane,
// and lets the real controller repair it.
package rebalance_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/test/specs"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

var spotNodes = []string{"spot-0", "spot-1", "spot-2", "spot-3", "spot-4", "spot-5"}

func TestSpotComesBackAfterAFallbackOneReplicaAtATime(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	c := w.Controller(testenv.Impatient)
	specs.SpotComesBack(w, spotNodes...)
	assert.Len(t, w.Evictions(), 7, "one eviction for each replica that had to move, and none before")

	writes := len(w.StatusWrites())
	w.Always(testenv.Length(12*time.Second, 5*time.Minute), "the controller lives on", func() (bool, string) { return testenv.Runs(c) })
	assert.Len(t, w.Evictions(), 7, "nothing more is evicted")
	assert.Len(t, w.StatusWrites(), writes, "nothing more is written")
}
