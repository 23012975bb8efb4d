// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// envProfiles is a folder for a processor profile of each scheduler, of some
// seconds after its first binding, and one of its heap after that. To take them
// costs a few per cent: not for the figures.
const envProfiles = "BERTH_BENCH_PROFILES"

// profile takes one if it is requested, beside what is measured. wait ends with it.
func (d *decider) profile(ctx context.Context) (wait func() error) {
	dir := os.Getenv(envProfiles)
	if dir == "" || d.process == nil {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() {
		var errs []error
		for kind, path := range map[string]string{"pprof": "profile?seconds=8", "heap": "heap"} { // the client waits for 10
			text, err := d.process.Get(ctx, "/debug/pprof/"+path)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, d.process.Name+"."+kind), text, 0o600)
			}
			errs = append(errs, err)
		}
		done <- errors.Join(errs...)
	}()
	return func() error { return <-done }
}
