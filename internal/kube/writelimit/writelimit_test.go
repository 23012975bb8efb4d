// SPDX-License-Identifier: Apache-2.0

package writelimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

func TestWritesAreSpaced(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	a, b, c := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}, types.NamespacedName{Name: "c"}
	l, together := New(time.Second), rate.NewLimiter(1, 2)
	wait := func(key types.NamespacedName, at time.Duration) time.Duration {
		return l.Wait(key, now.Add(at), together, time.Minute)
	}
	assert.Zero(t, wait(a, 0))
	assert.Equal(t, time.Second, wait(a, 0), "one object")
	assert.Equal(t, time.Second/2, wait(a, time.Second/2))
	assert.Zero(t, wait(b, 0), "another one")
	assert.Equal(t, time.Minute, wait(c, 0), "all together")
	assert.Zero(t, wait(a, time.Second))
	l.Forget(a)
	assert.Equal(t, 1, l.Len(), "a write that waits does not count")
	assert.Zero(t, wait(a, 2*time.Second))
}
