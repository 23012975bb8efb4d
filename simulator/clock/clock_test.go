// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Events come in the order of their times, those of one time in the order in which they were added, and none that was stopped.
func TestEventsComeInTheirOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type planned struct {
			n  int
			at time.Duration
		}
		c := New(start)
		var want, got []planned
		for n := range rapid.IntRange(0, 30).Draw(t, "events") {
			p := planned{n, time.Duration(rapid.IntRange(-1, 5).Draw(t, "at")) * time.Second}
			p.at = max(p.at, 0)
			timer := c.At(start.Add(p.at), func() {
				assert.Equal(t, start.Add(p.at), c.Now())
				got = append(got, p)
			})
			if rapid.Bool().Draw(t, "stopped") {
				assert.True(t, timer.Stop())
				assert.False(t, timer.Stop())
			} else {
				want = append(want, p)
			}
		}
		slices.SortStableFunc(want, func(a, b planned) int { return cmp.Compare(a.at, b.at) })
		for c.Step() {
		}
		assert.Equal(t, want, got)
	})
}

func TestEventsOfEventsAndTimeThatPasses(t *testing.T) {
	c := New(start)
	var got []string
	c.AfterFunc(2*time.Second, func() { got = append(got, "second") })
	c.AfterFunc(time.Second, func() {
		got = append(got, "first")
		c.Pass(5 * time.Second) // it took longer than until the second
		c.AfterFunc(0, func() { got = append(got, "third") })
	})
	for c.Step() {
	}
	assert.Equal(t, []string{"first", "second", "third"}, got)
	assert.Equal(t, start.Add(6*time.Second), c.Now(), "time does not go back")
}

func TestTimersAndTickers(t *testing.T) {
	c := New(start)
	timer, ticker := c.NewTimer(time.Second), c.NewTicker(2*time.Second)
	assert.True(t, c.Step())
	assert.Equal(t, start.Add(time.Second), <-timer.C())
	assert.False(t, timer.Reset(10*time.Second))
	for range 3 {
		assert.True(t, c.Step())
		assert.Equal(t, c.Now(), <-ticker.C())
	}
	assert.Equal(t, start.Add(6*time.Second), c.Now())
	ticker.Stop()
	next, _ := c.Next()
	assert.Equal(t, start.Add(11*time.Second), next)
	assert.True(t, timer.Stop())
	assert.False(t, c.Step())
}
