// SPDX-License-Identifier: Apache-2.0

package governing

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDeletionCost(t *testing.T) {
	for _, slot := range []int{0, 1, 99, 100, 101, 999_999} {
		assert.Equal(t, "-"+strconv.Itoa(slot), DeletionCost(slot))
	}
	assert.Zero(t, testing.AllocsPerRun(100, func() { DeletionCost(99) }), "allocations")
}
