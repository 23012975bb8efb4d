// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Without the bound the first of these does not end: the test would time out.
func TestAQuantityHasABudget(t *testing.T) {
	for _, text := range []string{"1e2147483647", "1E-2147483648", "1.5e+1000", "1e0000000003", strings.Repeat("9", 65), "1." + strings.Repeat("0", 1<<20)} {
		q, err := ParseQuantity(text)
		require.ErrorContains(t, err, "has an exponent longer than 3", "%.20s", text)
		assert.True(t, q.IsZero())
	}
	for _, text := range []string{"1", "500m", "1e3", "1E", "1Ei", "1e-9", "1e999", "1e-99", "9223372036854775807", strings.Repeat("9", 64)} {
		q, err := ParseQuantity(text)
		require.NoError(t, err, text)
		assert.Zero(t, q.Cmp(resource.MustParse(text)))
	}
	_, err := ParseQuantity("x")
	assert.Error(t, err)
}
