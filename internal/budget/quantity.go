// SPDX-License-Identifier: Apache-2.0

package budget

import "math"

// Add returns a + b. It returns the closest int64 if the sum is none: the amounts are a tenant's, and a sum that wraps
// around would cancel what others hold.
func Add(a, b int64) int64 {
	sum := a + b
	switch {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	}
	return sum
}

// Sub returns a - b, and the closest int64 if the difference is none.
func Sub(a, b int64) int64 {
	if b == math.MinInt64 {
		if a >= 0 {
			return math.MaxInt64
		}
		return a - b // cannot wrap: a is negative
	}
	return Add(a, -b)
}

// Mul returns a * b, and the closest int64 if the product is none.
func Mul(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	wraps := a == -1 && b == math.MinInt64 || b == -1 && a == math.MinInt64 // the division below wraps too
	if product := a * b; !wraps && product/b == a {
		return product
	}
	if (a < 0) == (b < 0) {
		return math.MaxInt64
	}
	return math.MinInt64
}
