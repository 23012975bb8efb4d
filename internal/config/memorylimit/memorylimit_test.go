// SPDX-License-Identifier: Apache-2.0

package memorylimit

import (
	"math"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestApply(t *testing.T) {
	start := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(start) })
	for name, c := range map[string]struct {
		limit, goMemLimit string
		want              int64
	}{
		"no limit":            {"", "", math.MaxInt64},
		"the container's":     {"1073741824", "", 966367642},
		"GOMEMLIMIT prevails": {"1073741824", "900MiB", math.MaxInt64},
		"not a number":        {"1Gi", "", math.MaxInt64},
		"negative":            {"-1", "", math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			t.Setenv(Env, c.limit)
			t.Setenv("GOMEMLIMIT", c.goMemLimit)
			Apply()
			assert.Equal(t, c.want, debug.SetMemoryLimit(-1))
		})
	}
}

func TestTheSoftLimitLeavesATenth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Min(10).Draw(t, "limit")
		got := soft(strconv.FormatInt(n, 10))
		if got >= n || got < n/10*9 {
			t.Fatalf("soft(%d) = %d", n, got)
		}
	})
}
