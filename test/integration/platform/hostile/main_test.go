// SPDX-License-Identifier: Apache-2.0

// Package hostile_test feeds the real scheduler and controller what a tenant can
// write, and checks that both stay small and keep serving another tenant.
package hostile_test

import (
	"os"
	"testing"

	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{MeasuresMemory: true, Fills: true}))
}
