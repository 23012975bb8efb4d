// SPDX-License-Identifier: Apache-2.0

// Package flood_test floods the gRPC and REST services of a running controller (F27) and checks that its memory and its
// goroutines stay bounded, that a caller is served meanwhile, and that the same process rebalances.
package flood_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"berth.dev/berth/test/testenv"
)

// files is how many file descriptors the floods need: ten thousand connections, and those of the control plane's clients.
const files = 12000

func TestMain(m *testing.M) {
	if err := raiseFiles(); err != nil {
		fmt.Fprintln(os.Stderr, "flood:", err)
		os.Exit(1)
	}
	os.Exit(testenv.Main(m, testenv.Options{MeasuresMemory: true}))
}

// raiseFiles raises the limit on file descriptors of this process.
func raiseFiles() error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return err
	}
	if l.Cur >= files {
		return nil
	}
	l.Cur = min(l.Max, files)
	if l.Cur < files {
		return fmt.Errorf("the hard limit on file descriptors is %d, and the floods need %d", l.Max, files)
	}
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
}
