// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The controller trades processor time, of which it needs next to none, for
// memory: it collects garbage when the heap has grown by leastGrowth percent.
// A small heap may grow by headroom, since a collection every few megabytes,
// while pods come in hundreds a second, made some of them wait for the webhook
// for half a second on two busy cores (make bench-webhook).
const (
	leastGrowth, mostGrowth = 25, 100
	headroom                = 12 << 20
	adjustEvery             = 5 * time.Second
)

// growth is by how many percent a heap of so many live bytes may grow.
func growth(live uint64) int {
	if live == 0 {
		return mostGrowth
	}
	return int(min(max(100*headroom/live, leastGrowth), mostGrowth))
}

// collectGarbage keeps the collector at that. GOGC in the environment overrides it.
func collectGarbage() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(leastGrowth) // until the first lists are read: they are the most there ever is at once
	go func() {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		for range time.Tick(adjustEvery) {
			metrics.Read(live)
			debug.SetGCPercent(growth(live[0].Value.Uint64()))
		}
	}()
}
