// SPDX-License-Identifier: Apache-2.0

package floor

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"berth.dev/berth/apis/v1alpha1"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func TestAWriteThatIsUndoneWaitsLongerEachTime(t *testing.T) {
	p := newPace()
	now, waits := noon, []time.Duration{}
	for range 8 {
		assert.Zero(t, p.wait("shop", "budget", "3", true, now))
		wait := p.wait("shop", "budget", "3", true, now)
		waits, now = append(waits, wait), now.Add(wait)
	}
	assert.Equal(t, firstDelay, waits[0], "the watch may be behind")
	assert.Equal(t, 2*firstDelay, waits[1])
	assert.Equal(t, maxDelay, waits[7])

	assert.Zero(t, p.wait("shop", "budget", "2", true, now), "another value is written at once")
	assert.Zero(t, p.wait("shop", "other", "3", true, now), "and another object")
	assert.Zero(t, p.wait("shop", "budget", "2", true, now.Add(3*maxDelay)))
	assert.Equal(t, firstDelay, p.wait("shop", "budget", "2", true, now.Add(3*maxDelay)), "what is long ago does not count")
}

func TestANamespaceLeavesTheOthersTheirTurn(t *testing.T) {
	p := newPace()
	write := func(namespace string, at time.Duration) (n int) {
		for i := range 10_000 {
			if p.wait(namespace, fmt.Sprint(namespace, i, at), "3", true, noon.Add(at)) == 0 {
				n++
			}
		}
		return n
	}
	assert.Equal(t, burst/2, write("hostile", 0))
	assert.Equal(t, burst/2, write("shop", 0))
	assert.Equal(t, perSecond/2, write("hostile", time.Second))
	assert.Equal(t, perSecond/2, write("shop", time.Second))
	assert.Equal(t, turn, p.wait("hostile", "x", "3", true, noon.Add(time.Second)))
}

func TestEachNamespaceHasAnEqualShare(t *testing.T) {
	p := newPace()
	write := func(namespace string, n int, at time.Duration) (written int) {
		for i := range n {
			if p.wait(namespace, fmt.Sprint(namespace, i, at), "3", true, noon.Add(at)) == 0 {
				written++
			}
		}
		return written
	}
	shop := 0
	for second := range 60 {
		at := time.Duration(second) * time.Second
		for i := range 5 {
			write(fmt.Sprint("hostile-", i), 200, at)
		}
		shop += write("shop", 3, at) // it is always the last one
	}
	assert.Greater(t, shop, 60*perSecond/10, "a sixth of the writes, but for the first seconds")
}

func TestABudgetComesBeforeOtherLabels(t *testing.T) {
	p := newPace()
	label := func(at time.Duration) (n int) {
		for i := range 100 {
			if p.wait("shop", fmt.Sprint(i, at), "label", false, noon.Add(at)) == 0 {
				n++
			}
		}
		return n
	}
	assert.Equal(t, burst/2, label(0))
	assert.Equal(t, turn, p.wait("shop", "budget", "3", true, noon))
	assert.Zero(t, label(turn), "the budget comes again")
	assert.Zero(t, p.wait("shop", "budget", "3", true, noon.Add(turn)))
	assert.Positive(t, label(3*turn))
}

func TestAWriteThatWaitsHasAVerdict(t *testing.T) {
	p := newPace()
	assert.Equal(t, pending, p.unwritten("budget", "3", noon))
	p.wait("shop", "budget", "3", true, noon)
	assert.Empty(t, p.unwritten("budget", "3", noon.Add(time.Second)), "the watch may be behind")
	assert.Equal(t, pending, p.unwritten("budget", "3", noon.Add(firstDelay)), "another client undid it")
	assert.Equal(t, pending, p.unwritten("budget", "2", noon), "another value")
	refused := errors.New("webhook answers 500")
	assert.Equal(t, refused, p.refuse("budget", refused))
	assert.Equal(t, refusal(refused), p.unwritten("budget", "3", noon.Add(time.Second)))
	assert.Equal(t, v1alpha1.ReasonBudgetRefused, refusal(refused).Reason)
}
