// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The environment variables of a measurement. Without the first nothing is
// measured, so that `go test ./...` is not kept waiting.
const (
	EnvDepth = "BERTH_BENCH"     // gate or full
	EnvOut   = "BERTH_BENCH_OUT" // the folder of the results; out/bench by default
)

// Depth is how much is measured.
type Depth string

// Gate is the part that is run with every change and has goals that gate it;
// Full is the whole table.
const (
	Gate Depth = "gate"
	Full Depth = "full"
)

// Asked returns how much is measured, and skips the test if nothing is.
func Asked(t testing.TB) Depth {
	t.Helper()
	d := Depth(os.Getenv(EnvDepth))
	switch d {
	case Gate, Full:
		return d
	case "":
		t.Skipf("%s is not set: make bench", EnvDepth)
	}
	t.Fatalf("%s=%s: it must be %s or %s", EnvDepth, d, Gate, Full)
	return ""
}

// Options are how a depth measures.
func (d Depth) Options(t testing.TB) Options {
	o := Options{Rounds: 5, MaxForeign: 0.10, Repeats: 5, Log: t.Logf}
	if d == Gate {
		o.Rounds, o.Repeats = 3, 2
	}
	return o
}

// Keep saves what a suite measured, also when only part of it was.
func Keep(t testing.TB, s *Suite) {
	t.Helper()
	dir := os.Getenv(EnvOut)
	if dir == "" {
		root, err := Root()
		require.NoError(t, err)
		dir = filepath.Join(root, "out", "bench")
	}
	require.NoError(t, s.Save(dir))
	t.Logf("%d cases in %s", len(s.Results), filepath.Join(dir, s.Name+".json"))
}

// Root is the repository: the folder above with a Makefile. Tests run in that of their package.
func Root() (string, error) {
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		if _, missing := os.Stat(filepath.Join(dir, "Makefile")); missing == nil {
			return dir, nil
		}
		dir = filepath.Dir(dir)
	}
	return dir, err
}

// What the environment leaves out of a suite, to look at part of it.
const (
	// EnvCases is a regular expression that the names of cases must match; that of a peer is CASE/PEER.
	EnvCases = "BERTH_BENCH_CASES"
	// EnvRounds is another number of rounds, for every case.
	EnvRounds = "BERTH_BENCH_ROUNDS"
)

// Chosen reports whether the environment selects a name, as it does for every
// name unless the variable is set.
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
