// SPDX-License-Identifier: Apache-2.0

// Package memorylimit holds a program below the memory limit of its container.
package memorylimit

import (
	"os"
	"runtime/debug"
	"strconv"
)

// Env has the memory limit of the container in bytes: the manifests set it by the downward API.
const Env = "BERTH_MEMORY_LIMIT"

// Apply sets the soft limit of the Go runtime, which collects garbage more often the nearer it comes. GOMEMLIMIT in the
// environment overrides it.
func Apply() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if limit := soft(os.Getenv(Env)); limit > 0 {
		debug.SetMemoryLimit(limit)
	}
}

// soft returns nine tenths of a limit, 0 if there is none. The runtime counts neither the pages of the program's file nor the
// buffers of the kernel, and exceeds its limit for a moment when much is allocated at once.
func soft(limit string) int64 {
	n, err := strconv.ParseInt(limit, 10, 64)
	if err != nil || n <= 0 {
		return 0
	}
	return n - n/10
}
