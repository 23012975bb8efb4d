// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
)

// longestQuantity bounds the digits of a quantity, and largeExponent is one whose digits fill the memory: to compare 1e2147483647 with
// another number takes longer than anyone waits. The rules of the CustomResourceDefinitions have the same bounds.
const longestQuantity = 64

var largeExponent = regexp.MustCompile(`[eE].{4}`)

// ParseQuantity is resource.ParseQuantity for a text that a tenant wrote.
func ParseQuantity(text string) (resource.Quantity, error) {
	if len(text) > longestQuantity || largeExponent.MatchString(text) {
		return resource.Quantity{}, fmt.Errorf("%.64q is longer than %d characters, or has an exponent longer than 3", text, longestQuantity)
	}
	return resource.ParseQuantity(text)
}
