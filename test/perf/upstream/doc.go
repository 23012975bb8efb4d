// SPDX-License-Identifier: Apache-2.0

// Package upstream measures Berth and its peers from end to end with the
// Kubernetes scheduler's own benchmark, scheduler_perf: an API server and a
// scheduler in one process, nodes that are objects only. config/ has what is
// measured, in that benchmark's format.
//
// Each peer is run in a process of its own, so that what one leaves behind, heap
// or goroutines, does not disturb the next.
package upstream
