// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The controller trades processor time, of which it needs next to none, for
// memory: it collects garbage when the heap has grown by leastGrowth percent.
// A small heap may grow by headroom, since a collection every few megabytes,
// while pods come in hundreds a second, made some of them wait for the webhook
// for half a second on two busy cores (make bench-webhook). A heap of 120 MB
// and more grows by a tenth, which is as much.
const (
	leastGrowth, mostGrowth = 10, 100
	headroom                = 12 << 20
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
	debug.SetGCPercent(leastGrowth) // until the first collection
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	afterCollections(func() {
		metrics.Read(live)
		debug.SetGCPercent(growth(live[0].Value.Uint64()))
	})
}

// collected is an object that only its finalizer keeps.
type collected struct{ after func() }

// afterCollections calls a function after every collection from now on. A timer would be late: a snapshot of the cluster triples
// the live heap within a second, and must not have the growth of a small one.
func afterCollections(call func()) {
	runtime.SetFinalizer(&collected{call}, (*collected).finalize)
}

func (c *collected) finalize() {
	c.after()
	runtime.SetFinalizer(c, (*collected).finalize)
}
