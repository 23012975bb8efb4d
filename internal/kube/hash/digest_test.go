// SPDX-License-Identifier: Apache-2.0

package hash_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/internal/kube/hash"
)

// What was written into labels and names by one version is looked for by the next. The digits are those of
// `printf berth | sha256sum`.
func TestOf(t *testing.T) {
	const whole = "5c2f64c7f21efd5fb5e3d6a499abe5eacb248ae6f6f0085387c9a056d10ef5fd"
	assert.Equal(t, whole, hash.Of("berth", 64))
	assert.Equal(t, whole[:hash.Label], hash.Of([]byte("berth"), hash.Label))
	assert.Equal(t, whole[:6], hash.Of("berth", 6))
}
