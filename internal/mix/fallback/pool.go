// SPDX-License-Identifier: Apache-2.0

// Package fallback decides when pods that are limited to spot nodes before they are scheduled are limited to on-demand
// nodes instead, because no spot nodes come. It is a circuit breaker. It is pure: it reads no API and no clock.
package fallback

import (
	"time"

	"berth.dev/berth/internal/mix/capacity"
)

const (
	// Threshold is the number of consecutive failures after which spot is not tried any more.
	Threshold = 3
	// mostAllowed is the number of concurrent attempts that must succeed before the circuit breaker closes.
	mostAllowed = 8
	// mostWaits is the maximum time until spot is tried again, as a multiple of the wait of one pod.
	mostWaits = 8
	// leastWait is the minimum wait for the times between failures.
	leastWait = 5 * time.Second
)

// State is the state of a pool.
type State string

// States of a pool.
const (
	// Closed: pods with a spot slot are limited to spot, except the successors of those that waited without success.
	Closed State = "closed"
	// Open: all pods are limited to on-demand until spot is tried again.
	Open State = "open"
	// HalfOpen: some pods may try spot.
	HalfOpen State = "half-open"
)

// Pool is the circuit breaker of the spot nodes of some workloads. The zero value is one without any attempt. It is not
// safe for concurrent use.
type Pool struct {
	mark Mark
	// opened is when the circuit breaker last opened: failures of attempts that started earlier are ignored.
	opened time.Time
	// succeeded is the number of successful attempts since spot is tried again. At first one attempt is allowed, and
	// one more for each that succeeded: twice as many per round.
	succeeded int
	// tries has when the pods were limited to spot that have no node yet, by ID.
	tries map[string]time.Time
	// credits are for the successors of pods that waited without success, by group.
	credits map[string]credit
	// given are the groups of pods that used a credit and are not observed as limited to on-demand yet.
	given map[string]string
}

// credit allows some pods of a group to be limited to on-demand until a time.
type credit struct {
	pods  int
	until time.Time
}

// Pod is a pod with a spot slot.
type Pod struct {
	ID, Group string
	// Wait is the maximum time that it waits for a spot node.
	Wait time.Duration
}

// Verdict is the type that a pod with a spot slot is limited to.
type Verdict struct {
	Type capacity.Type
	// Mark is that of a pod that falls back.
	Mark Mark
	// Successor is true if the pod falls back because its predecessor waited without success, not because the circuit
	// breaker is open.
	Successor bool
}

// State returns the pool's state.
func (p *Pool) State(now time.Time, wait time.Duration) State {
	switch quiet := p.mark.RetryAt.Add(mostWaits * atLeast(wait)); {
	case p.mark.Failures < Threshold, !now.Before(quiet) && p.trying(now, wait) == 0:
		return Closed
	case now.Before(p.mark.RetryAt):
		return Open
	}
	return HalfOpen
}

// Mark returns the last state of the pool as a mark.
func (p *Pool) Mark() Mark { return p.mark }

// Idle reports whether the pool can be deleted without a loss.
func (p *Pool) Idle(now time.Time, wait time.Duration) bool {
	return len(p.tries)+len(p.given) == 0 && !now.Before(p.mark.RetryAt.Add(mostWaits*atLeast(wait)))
}

// Choose decides the type of a pod whose gate is about to be removed. If it is called again for the same pod, it
// replaces the previous decision.
func (p *Pool) Choose(now time.Time, pod Pod) Verdict {
	p.withdraw(now, pod.ID)
	switch p.State(now, pod.Wait) {
	case Open:
		return Verdict{Type: capacity.OnDemand, Mark: p.mark}
	case HalfOpen:
		if p.trying(now, pod.Wait) >= p.allowed() {
			return Verdict{Type: capacity.OnDemand, Mark: p.mark}
		}
	case Closed:
		if p.mark.Failures >= Threshold { // no attempt for this long
			p.close()
		}
	}
	if c := p.credits[pod.Group]; c.pods > 0 && now.Before(c.until) {
		c.pods--
		p.setCredit(pod.Group, c)
		if p.given == nil {
			p.given = map[string]string{}
		}
		p.given[pod.ID] = pod.Group
		return Verdict{Type: capacity.OnDemand, Mark: p.mark, Successor: true}
	}
	p.Tries(now, pod)
	return Verdict{Type: capacity.Spot}
}

// trying counts the attempts in progress. Attempts that take longer than the maximum pause of spot are blocked by
// something else, such as another gate, and must not keep all others from spot.
func (p *Pool) trying(now time.Time, wait time.Duration) (n int) {
	for _, began := range p.tries {
		if now.Before(began.Add(mostWaits * atLeast(wait))) {
			n++
		}
	}
	return n
}

// allowed is the number of concurrent attempts while half-open.
func (p *Pool) allowed() int { return p.succeeded + 1 }

// withdraw reverts the decision for a pod.
func (p *Pool) withdraw(now time.Time, id string) {
	delete(p.tries, id)
	if group, ok := p.given[id]; ok {
		delete(p.given, id)
		if c := p.credits[group]; now.Before(p.mark.RetryAt) {
			c.pods++
			c.until = p.mark.RetryAt
			p.setCredit(group, c)
		}
	}
}

// Tries records a pod that has been limited to spot since a time and has no node yet.
func (p *Pool) Tries(began time.Time, pod Pod) {
	if p.tries == nil {
		p.tries = map[string]time.Time{}
	}
	p.tries[pod.ID] = began
}

// Gone records that a pod is deleted, or is limited to on-demand permanently.
func (p *Pool) Gone(id string) {
	delete(p.tries, id)
	delete(p.given, id)
}

// Succeeded records that a pod that was limited to spot has a node.
func (p *Pool) Succeeded(now time.Time, pod Pod) {
	_, tried := p.tries[pod.ID]
	halfOpen := p.State(now, pod.Wait) == HalfOpen
	delete(p.tries, pod.ID)
	if !tried || !halfOpen {
		return
	}
	if p.succeeded++; p.succeeded >= mostAllowed {
		p.close()
	}
}

func (p *Pool) close() { p.mark.Failures, p.succeeded = 0, 0 }

// Failed records that a pod that was limited to spot waited without success. successor is true if the pod will be
// replaced, and the replacement may be limited to on-demand.
func (p *Pool) Failed(now time.Time, pod Pod, successor bool) {
	began, tried := p.tries[pod.ID]
	if !tried {
		return
	}
	state, wait := p.State(now, pod.Wait), atLeast(pod.Wait)
	delete(p.tries, pod.ID)
	switch {
	case state == Closed:
		if p.mark.Failures >= Threshold || !now.Before(p.mark.RetryAt.Add(wait)) {
			p.mark.Failures = 0 // the previous failures were long ago
		}
		p.fail(now, wait)
	case state == HalfOpen && !began.Before(p.opened):
		p.fail(now, wait)
	}
	if successor {
		c := p.credits[pod.Group]
		if !now.Before(c.until) {
			c.pods = 0
		}
		c.pods++
		c.until = p.mark.RetryAt
		p.setCredit(pod.Group, c)
	}
}

// fail counts a failure, and opens the circuit breaker if there were enough.
func (p *Pool) fail(now time.Time, wait time.Duration) {
	p.mark.Failures = min(p.mark.Failures+1, mostFailures)
	pause := wait
	for n := Threshold; n < p.mark.Failures && pause < mostWaits*wait; n++ {
		pause *= 2
	}
	p.mark.RetryAt = wholeSecond(now.Add(pause))
	if p.mark.Failures >= Threshold {
		p.opened, p.succeeded = now, 0
	}
}

// Restore uses the mark of a pod, when a process becomes the leader. The mark may be from a process whose clock was
// wrong, or forged: it keeps pods from spot for no longer than any failure does.
func (p *Pool) Restore(now time.Time, wait time.Duration, m Mark) {
	if latest := wholeSecond(now.Add(mostWaits * atLeast(wait))); m.RetryAt.After(latest) {
		m.RetryAt = latest
	}
	if m.Later(p.mark) {
		p.mark = m
	}
}

func (p *Pool) setCredit(group string, c credit) {
	if c.pods == 0 {
		delete(p.credits, group)
		return
	}
	if p.credits == nil {
		p.credits = map[string]credit{}
	}
	p.credits[group] = c
}

func atLeast(wait time.Duration) time.Duration { return max(wait, leastWait) }

// wholeSecond rounds up: a mark has no fractions of a second.
func wholeSecond(t time.Time) time.Time {
	return t.UTC().Add(time.Second - 1).Truncate(time.Second)
}
