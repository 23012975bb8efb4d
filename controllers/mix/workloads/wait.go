// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// SyncPoll is the time between two checks whether the cluster state has been filled.
const SyncPoll = 200 * time.Millisecond

// Await waits until everything is known that decisions depend on, as synced reports it. It returns false if the context ends before.
func Await(ctx context.Context, c clock.Clock, synced func() (waitingFor string, ok bool)) bool {
	for {
		if _, ok := synced(); ok {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-c.After(SyncPoll):
		}
	}
}

// Earliest is the shorter of two waits, of which 0 is none.
func Earliest(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
