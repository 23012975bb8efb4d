// SPDX-License-Identifier: Apache-2.0

// Package alpha_test is about what Kubernetes 1.35 to 1.37 has behind feature gates that are off by default. Its control plane has
// them on.
package alpha_test

import (
	"os"
	"testing"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

const (
	comparison = "TaintTolerationComparisonOperators"
	evictions  = "EvictionRequestAPI"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true, FeatureGates: map[string]bool{comparison: true, evictions: true}}))
}

// newWorld is a world with a scheduler that has the feature gates of the API server which concern it.
func newWorld(t *testing.T, nodes ...cluster.NodeSpec) *testenv.World {
	t.Helper()
	w := testenv.New(t, nodes...)
	o := testenv.SchedulerOptions(testenv.SecondScheduler)
	o.Args = []string{"--feature-gates=" + comparison + "=true"}
	w.RunScheduler(o)
	return w
}
