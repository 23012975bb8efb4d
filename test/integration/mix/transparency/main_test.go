// SPDX-License-Identifier: Apache-2.0

// Package transparency_test compares where Berth and the stock scheduler place
// pods that have no mix.
package transparency_test

import (
	"cmp"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true})) }

// seedEnv repeats a run: the seed that it printed.
const seedEnv = "BERTH_TEST_SEED"

// firstSeed is a new one for every run, unless one is requested.
func firstSeed(t *testing.T) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv(seedEnv), strconv.FormatInt(time.Now().Unix(), 10)), 10, 63)
	require.NoError(t, err, seedEnv)
	return seed
}
