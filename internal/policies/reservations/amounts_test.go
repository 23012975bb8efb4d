// SPDX-License-Identifier: Apache-2.0

package reservations

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

// Whatever is held, the sum is the exact one or the largest amount, and no pod fits beside it because of its size.
func TestSumsOfHeldAmountsSaturate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sum, exact := &Amounts{}, new(big.Int)
		for _, amount := range rapid.SliceOfN(rapid.Int64Min(0), 1, 8).Draw(t, "amounts") {
			sum.add(&Amounts{MilliCPU: amount, Memory: amount, EphemeralStorage: amount, Scalars: map[corev1.ResourceName]int64{gpu: amount}})
			exact.Add(exact, big.NewInt(amount))
		}
		want := int64(math.MaxInt64)
		if exact.IsInt64() {
			want = exact.Int64()
		}
		require.Equal(t, &Amounts{MilliCPU: want, Memory: want, EphemeralStorage: want, Scalars: map[corev1.ResourceName]int64{gpu: want}}, sum)
		request := rapid.Int64Range(1, 10_000).Draw(t, "request")
		lacking := (&held{total: *sum, pods: 1}).lacking(node("n1", "110"), &Amounts{MilliCPU: request}, nil)
		free := new(big.Int).Sub(big.NewInt(7000), exact)
		require.Equal(t, free.Cmp(big.NewInt(request)) < 0, lacking == corev1.ResourceCPU)
	})
}

func TestAQuantityThatIsNoInt64IsTheLargestAmount(t *testing.T) {
	for quantity, want := range map[string][2]int64{
		"1500m": {1500, 2}, "9P": {9e18, 9e15}, "10P": {math.MaxInt64, 1e16}, "9E": {math.MaxInt64, 9e18}, "7Ei": {math.MaxInt64, 7 << 60},
		"100E": {math.MaxInt64, math.MaxInt64}, "1e30": {math.MaxInt64, math.MaxInt64},
	} {
		a := AmountsOf(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(quantity), corev1.ResourceMemory: resource.MustParse(quantity)})
		assert.Equal(t, want, [2]int64{a.MilliCPU, a.Memory}, quantity)
	}
}
