// SPDX-License-Identifier: Apache-2.0

package digest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/internal/digest"
)

// What was written into labels and names by one version is looked for by the next. The digits are those of
// `printf berth | sha256sum`.
func TestOf(t *testing.T) {
	const whole = "5c2f64c7f21efd5fb5e3d6a499abe5eacb248ae6f6f0085387c9a056d10ef5fd"
	assert.Equal(t, whole, digest.Of("berth", 64))
	assert.Equal(t, whole[:digest.Label], digest.Of([]byte("berth"), digest.Label))
	assert.Equal(t, whole[:6], digest.Of("berth", 6))
}
