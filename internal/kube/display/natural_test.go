// SPDX-License-Identifier: Apache-2.0

package display

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNumbersInNamesAreInOrderOfTheirValues(t *testing.T) {
	want := []string{"", "db", "web", "web-2", "web-02", "web-2-a", "web-10", "web-10-a", "web-100000000000000000000", "x1y2", "x1y10"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, Natural)
	want[3], want[4] = "web-02", "web-2"
	assert.Equal(t, want, got)
}

func TestNaturalIsAnOrder(t *testing.T) {
	name := rapid.StringMatching(`[a-b0-2-]{0,5}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := name.Draw(t, "a"), name.Draw(t, "b"), name.Draw(t, "c")
		require.Equal(t, Natural(a, b), -Natural(b, a))
		require.Equal(t, a == b, Natural(a, b) == 0)
		if Natural(a, b) <= 0 && Natural(b, c) <= 0 {
			require.LessOrEqual(t, Natural(a, c), 0)
		}
	})
}

func TestCountsAreInThePlural(t *testing.T) {
	for want, n := range map[string]int{"1 policy": 1, "2 policies": 2, "0 policies": 0} {
		assert.Equal(t, want, Count(n, "policy"))
	}
	assert.Equal(t, "2 mixes", Count(2, "mix"))
	assert.Equal(t, "2 pods", Count(2, "pod"))
	assert.Equal(t, "1 pod runs", Clause(1, "pod", "runs", "run"))
	assert.Equal(t, "0 pods run", Clause(0, "pod", "runs", "run"))
	assert.Equal(t, "the only pod", All(1, "pod"))
	assert.Equal(t, "all 2 pods", All(2, "pod"))
}
