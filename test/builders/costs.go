// SPDX-License-Identifier: Apache-2.0

package builders

import (
	"runtime"
	"syscall"
	"time"
)

// Heap returns the bytes that are live, for what something takes to be measured.
func Heap() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers release
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// ProcessorTime is what this process has used, for what something takes to be measured beside programs that take the processors.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
