// SPDX-License-Identifier: Apache-2.0

package floor

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/floor"
)

const (
	// perSecond and burst bound the writes of all namespaces. A namespace has half of that at most, and an equal share where more than
	// two have something to write.
	perSecond, burst = 20, 100
	// firstDelay is how long the same write waits after it was made: first the watch may be behind, then another client undoes it. It
	// doubles up to maxDelay.
	firstDelay, maxDelay = 5 * time.Second, 5 * time.Minute
	// remembered is how many writes and pods are remembered, the last ones.
	remembered = 8192
	// turn is how long a write waits for its turn.
	turn = time.Second
)

// pending is the verdict about a floor that is not protected yet.
var pending = floor.Verdict{
	Reason: v1alpha1.ReasonFloorPending, Message: "the PodDisruptionBudget and the labels that it requires are not written yet",
}

// pace delays writes. One goroutine uses it.
type pace struct {
	all        *rate.Limiter
	namespaces *lru.Cache // *share by name
	written    *lru.Cache // written by object
	// asking are the namespaces that have had writes since a time, asked those of the turn before it.
	asking, asked map[string]struct{}
	since         time.Time
}

// share is that of a namespace. A budget, and the labels that it requires, come before other labels: one of them waited last at urgent.
type share struct {
	*rate.Limiter
	urgent time.Time
}

// written is what was written last to an object.
type written struct {
	value string
	at    time.Time
	// again counts how often in a row it was written.
	again int
	// refusal is the answer of the API server that did not accept it.
	refusal error
}

func newPace() *pace {
	return &pace{
		all: rate.NewLimiter(perSecond, burst), namespaces: lru.New(remembered), written: lru.New(remembered),
		asking: map[string]struct{}{},
	}
}

// wait returns how long to wait with a write of a value to an object, 0 if it is its turn: then it counts.
func (p *pace) wait(namespace, object, value string, urgent bool, now time.Time) time.Duration {
	last := p.last(object, value, now)
	if left := last.at.Add(min(firstDelay<<min(last.again, 10), maxDelay)).Sub(now); last.value != "" && left > 0 {
		return left
	}
	if wait := p.turn(namespace, urgent, now); wait > 0 {
		return wait
	}
	if last.value != "" {
		last.again++
	}
	p.written.Add(object, written{value: value, at: now, again: last.again})
	return 0
}

// turn returns how long a write of a namespace has to wait for its turn, 0 if it is its turn: then it counts.
func (p *pace) turn(namespace string, urgent bool, now time.Time) time.Duration {
	of, n := p.of(namespace), p.sharing(namespace, now)
	of.SetLimitAt(now, rate.Limit(perSecond)/rate.Limit(n))
	of.SetBurstAt(now, max(1, burst/n))
	if !urgent && now.Before(of.urgent.Add(2*turn)) {
		return turn
	}
	if of.TokensAt(now) < 1 || !p.all.AllowN(now, 1) {
		if urgent {
			of.urgent = now
		}
		return turn
	}
	of.AllowN(now, 1)
	return 0
}

// sharing is between how many namespaces the writes are divided, 2 at least.
func (p *pace) sharing(namespace string, now time.Time) int {
	if now.Sub(p.since) >= turn {
		if p.asked = p.asking; now.Sub(p.since) >= 2*turn {
			p.asked = nil
		}
		p.asking, p.since = map[string]struct{}{}, now
	}
	p.asking[namespace] = struct{}{}
	return max(2, len(p.asking), len(p.asked))
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

// refuse notes that the API server did not accept the last write to an object, and returns why.
func (p *pace) refuse(object string, why error) error {
	if known, ok := p.written.Get(object); ok {
		w := known.(written) //nolint:forcetypeassert // nothing else is in it
		w.refusal = why
		p.written.Add(object, w)
	}
	return why
}

// unwritten is the verdict about a write that has to wait. One that was made a moment ago is not in the watch yet, and has no verdict.
func (p *pace) unwritten(object, value string, now time.Time) floor.Verdict {
	switch last := p.last(object, value, now); {
	case last.refusal != nil:
		return refusal(last.refusal)
	case last.value != "" && now.Sub(last.at) < firstDelay:
		return floor.Verdict{}
	}
	return pending
}

func (p *pace) of(namespace string) *share {
	if known, ok := p.namespaces.Get(namespace); ok {
		return known.(*share) //nolint:forcetypeassert // nothing else is in it
	}
	s := &share{Limiter: rate.NewLimiter(perSecond/2, burst/2)}
	p.namespaces.Add(namespace, s)
	return s
}

// inUse are the pods whose label another client set, the last ones that were found.
type inUse struct{ pods *lru.Cache }

func newInUse() *inUse { return &inUse{lru.New(remembered)} }

func (u *inUse) has(p *clusterstate.Pod) bool {
	_, is := u.pods.Get(p.UID)
	return is
}

func (u *inUse) add(uid types.UID) { u.pods.Add(uid, nil) }
