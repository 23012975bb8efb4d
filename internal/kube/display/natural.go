// SPDX-License-Identifier: Apache-2.0

package display

import (
	"cmp"
	"strings"
)

// Natural compares names so that numbers in them are in the order of their values: web-2 is before web-10. Names that differ
// in leading zeros only are in the order of their texts.
func Natural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		m, n := digits(x), digits(y)
		if m == 0 || n == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		// Names have numbers of any length, so they are compared as texts.
		i, j := strings.TrimLeft(x[:m], "0"), strings.TrimLeft(y[:n], "0")
		if c := cmp.Or(cmp.Compare(len(i), len(j)), cmp.Compare(i, j)); c != 0 {
			return c
		}
		x, y = x[m:], y[n:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// digits is how many digits a text begins with.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }
