// SPDX-License-Identifier: Apache-2.0

// Package hostile_test feeds the real scheduler and controller what a tenant can
// write, and checks that both stay small and keep serving another tenant.
package hostile_test

import (
	"os"
	"testing"

	"berth.dev/berth/test/world"
)

func TestMain(m *testing.M) {
	os.Setenv(world.NoRaceEnv, "1") // the race detector takes many times the memory that this suite bounds
	os.Exit(world.Main(m, world.Options{}))
}
