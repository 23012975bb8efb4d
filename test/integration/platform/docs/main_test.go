// SPDX-License-Identifier: Apache-2.0

// Package docs_test holds the documentation to what is there: every command that it prints is run on a control plane with
// Berth installed, or checked against what it names, or said here to be run elsewhere.
package docs_test

import (
	"os"
	"testing"

	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{NoCRDs: true, NoRBAC: true, NoScheduler: true}))
}
