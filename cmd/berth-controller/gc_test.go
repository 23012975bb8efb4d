// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestGrowthOfTheHeap(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, 1: 100, 12 << 20: 100, 24 << 20: 50, 40 << 20: 30, 48 << 20: 25, 1 << 40: 25} {
		assert.Equal(t, want, growth(live), "%d MiB", live>>20)
	}
}
