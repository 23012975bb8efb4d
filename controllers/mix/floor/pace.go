// SPDX-License-Identifier: Apache-2.0

package floor

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"berth.dev/berth/internal/mix/clusterstate"
)

const (
	// perSecond and burst bound the writes of all namespaces, and a namespace has half of that: one with many groups leaves the others
	// their turn.
	perSecond, burst = 20, 100
	// firstDelay is how long the same write waits after it was made: first the watch may be behind, then another client undoes it. It
	// doubles up to maxDelay.
	firstDelay, maxDelay = 5 * time.Second, 5 * time.Minute
	// remembered is how many writes and pods are remembered, the last ones.
	remembered = 8192
	// turn is how long a write waits for its turn.
	turn = time.Second
)

// pace delays writes. One goroutine uses it.
type pace struct {
	all        *rate.Limiter
	namespaces *lru.Cache // *rate.Limiter by name
	written    *lru.Cache // written by object
}

// written is what was written last to an object.
type written struct {
	value string
	at    time.Time
	// again counts how often in a row it was written.
	again int
}

func newPace() *pace {
	return &pace{all: rate.NewLimiter(perSecond, burst), namespaces: lru.New(remembered), written: lru.New(remembered)}
}

// wait returns how long to wait with a write of a value to an object, 0 if it is its turn: then it counts.
func (p *pace) wait(namespace, object, value string, now time.Time) time.Duration {
	last := p.last(object, value, now)
	if left := last.at.Add(min(firstDelay<<min(last.again, 10), maxDelay)).Sub(now); last.value != "" && left > 0 {
		return left
	}
	of := p.of(namespace)
	if of.TokensAt(now) < 1 || !p.all.AllowN(now, 1) {
		return turn
	}
	of.AllowN(now, 1)
	if last.value != "" {
		last.again++
	}
	p.written.Add(object, written{value: value, at: now, again: last.again})
	return 0
}

// last is the last write to an object if it was of this value, and not long ago.
func (p *pace) last(object, value string, now time.Time) written {
	if known, ok := p.written.Get(object); ok {
		if w := known.(written); w.value == value && now.Sub(w.at) <= 2*maxDelay { //nolint:forcetypeassert // nothing else is in it
			return w
		}
	}
	return written{}
}

// forget has an object written at once, since it was removed on purpose.
func (p *pace) forget(object string) { p.written.Remove(object) }

func (p *pace) of(namespace string) *rate.Limiter {
	if known, ok := p.namespaces.Get(namespace); ok {
		return known.(*rate.Limiter) //nolint:forcetypeassert // nothing else is in it
	}
	l := rate.NewLimiter(perSecond/2, burst/2)
	p.namespaces.Add(namespace, l)
	return l
}

// inUse are the pods whose label another client set, the last ones that were found.
type inUse struct{ pods *lru.Cache }

func newInUse() *inUse { return &inUse{lru.New(remembered)} }

func (u *inUse) has(p *clusterstate.Pod) bool {
	_, is := u.pods.Get(p.UID)
	return is
}

func (u *inUse) add(uid types.UID) { u.pods.Add(uid, nil) }
