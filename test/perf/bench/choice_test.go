// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/test/perf/bench"
)

func TestTheEnvironmentChoosesCasesAndRounds(t *testing.T) {
	t.Setenv(bench.EnvCases, "")
	t.Setenv(bench.EnvRounds, "")
	assert.True(t, bench.Chosen(t, "drain/nodes=5000/P0"))
	assert.Equal(t, 5, bench.Rounds(t, 5))
	t.Setenv(bench.EnvCases, "^drain/.*/(P0|L2)$")
	t.Setenv(bench.EnvRounds, "1")
	assert.True(t, bench.Chosen(t, "drain/nodes=5000/P0"))
	assert.False(t, bench.Chosen(t, "drain/nodes=5000/P1"))
	assert.False(t, bench.Chosen(t, "more/drain/P0"))
	assert.Equal(t, 1, bench.Rounds(t, 5))
}
