// SPDX-License-Identifier: Apache-2.0

package specs

import (
	"github.com/stretchr/testify/assert"

	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// ASizeIsEnforced has a pod within its size placed, and one above it wait and report it.
func ASizeIsEnforced(w *testenv.World) {
	w.T.Helper()
	w.Create(
		builders.ResourceLimit("small", builders.SizeCPU("100m", "200m")),
		builders.Deployment("within", 1, builders.OfSize("small")),
		builders.Deployment("above", 1, builders.CPU("300m"), builders.OfSize("small")),
	)
	w.WaitReady("within", 1)
	assert.Contains(w.T, testenv.Unschedulable(&w.WaitUnschedulable("above", 1)[0]), "cpu request 300m is above 200m")
}
