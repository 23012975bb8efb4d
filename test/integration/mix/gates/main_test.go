// SPDX-License-Identifier: Apache-2.0

// Package gates_test is about pods with the scheduling gate of Berth, which get
// their slot before they are scheduled, by any scheduler.
package gates_test

import (
	"os"
	"testing"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

// newWorld is a world with the stock scheduler beside Berth's.
func newWorld(t *testing.T, nodes ...cluster.NodeSpec) *testenv.World {
	t.Helper()
	w := testenv.New(t, nodes...)
	w.StartStock()
	return w
}
