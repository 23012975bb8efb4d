// SPDX-License-Identifier: Apache-2.0

package builders

import "runtime"

// Heap returns the bytes that are live, for what something takes to be measured.
func Heap() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
