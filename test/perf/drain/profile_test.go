// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"
	"os"
	"path/filepath"
)

// envProfiles is a folder for a processor profile of each scheduler, of some
// seconds after its first binding. To take one costs a few per cent: not for the figures.
const envProfiles = "BERTH_BENCH_PROFILES"

// profile takes one if it is asked for, beside what is measured. wait ends with it.
func (d *decider) profile(ctx context.Context) (wait func() error) {
	dir := os.Getenv(envProfiles)
	if dir == "" || d.process == nil {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() {
		text, err := d.process.Get(ctx, "/debug/pprof/profile?seconds=8") // the client waits for 10
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, d.process.Name+".pprof"), text, 0o600)
		}
		done <- err
	}()
	return func() error { return <-done }
}
