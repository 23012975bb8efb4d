// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"testing"

	"berth.dev/berth/internal/cli/clitest"
)

func TestExplainOfThePodsWithTheGate(t *testing.T) {
	clitest.Golden(t, "explain-gates.txt", explained(t, clitest.GatedShop().Cluster(t), nil))
}
