// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestGrowthOfTheHeap(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, 1: 100, 12 << 20: 100, 24 << 20: 50, 40 << 20: 30, 48 << 20: 25, 120 << 20: 10, 1 << 40: 10} {
		assert.Equal(t, want, growth(live), "%d MiB", live>>20)
	}
}

func TestTheGrowthIsSetAfterEveryCollection(t *testing.T) {
	calls := make(chan struct{}, 100)
	afterCollections(func() { calls <- struct{}{} })
	for i := range 3 {
		runtime.GC()
		select {
		case <-calls:
		case <-time.After(10 * time.Second):
			t.Fatalf("no call after collection %d", i+1)
		}
	}
}
