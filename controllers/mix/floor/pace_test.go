// SPDX-License-Identifier: Apache-2.0

package floor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func TestAWriteThatIsUndoneWaitsLongerEachTime(t *testing.T) {
	p := newPace()
	now, waits := noon, []time.Duration{}
	for range 8 {
		assert.Zero(t, p.wait("shop", "budget", "3", now))
		wait := p.wait("shop", "budget", "3", now)
		waits, now = append(waits, wait), now.Add(wait)
	}
	assert.Equal(t, firstDelay, waits[0], "the watch may be behind")
	assert.Equal(t, 2*firstDelay, waits[1])
	assert.Equal(t, maxDelay, waits[7])

	assert.Zero(t, p.wait("shop", "budget", "2", now), "another value is written at once")
	assert.Zero(t, p.wait("shop", "other", "3", now), "and another object")
	p.forget("budget")
	assert.Zero(t, p.wait("shop", "budget", "2", now), "and what was removed")
	assert.Zero(t, p.wait("shop", "budget", "2", now.Add(3*maxDelay)))
	assert.Equal(t, firstDelay, p.wait("shop", "budget", "2", now.Add(3*maxDelay)), "what is long ago does not count")
}

func TestANamespaceLeavesTheOthersTheirTurn(t *testing.T) {
	p := newPace()
	write := func(namespace string, at time.Duration) (n int) {
		for i := range 10_000 {
			if p.wait(namespace, fmt.Sprint(namespace, i, at), "3", noon.Add(at)) == 0 {
				n++
			}
		}
		return n
	}
	assert.Equal(t, burst/2, write("hostile", 0))
	assert.Equal(t, burst/2, write("shop", 0))
	assert.Equal(t, perSecond/2, write("hostile", time.Second))
	assert.Equal(t, perSecond/2, write("shop", time.Second))
	assert.Equal(t, turn, p.wait("hostile", "x", "3", noon.Add(time.Second)))
}
