// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the environment leaves out of a suite, to look at part of it.
const (
	// EnvCases is a regular expression that the names of cases must match; that of a peer is CASE/PEER.
	EnvCases = "BERTH_BENCH_CASES"
	// EnvRounds is another number of rounds, for every case.
	EnvRounds = "BERTH_BENCH_ROUNDS"
)

// Chosen reports whether the environment requests a name, as it does for every
// name unless it says something.
func Chosen(t testing.TB, name string) bool {
	t.Helper()
	asked, err := regexp.Compile(os.Getenv(EnvCases))
	require.NoError(t, err, EnvCases)
	return asked.MatchString(name)
}

// Rounds returns the usual number unless the environment requests another.
func Rounds(t testing.TB, usual int) int {
	t.Helper()
	asked := os.Getenv(EnvRounds)
	if asked == "" {
		return usual
	}
	n, err := strconv.Atoi(asked)
	require.NoError(t, err, "%s=%s", EnvRounds, asked)
	return n
}
