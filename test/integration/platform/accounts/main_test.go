// SPDX-License-Identifier: Apache-2.0

// Package accounts_test checks what the real controller writes about workloads:
// slots, deletion costs and events.
package accounts_test

import (
	"os"
	"testing"

	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }
