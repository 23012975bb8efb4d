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
	// mostWaits is the maximum time until spot is tried again, as a multiple of the wait of one pod.
	mostWaits = 4
	// leastWait is the minimum wait for the times between failures.
	leastWait = 5 * time.Second
	// probeShare is the pause of spot after a probe that a report ended, as a multiple of the time that the probe took: replicas that probe
	// wait for a 48th of the time, half an hour a day.
	probeShare = 48
	// leastPause is the minimum time until spot is tried again after such a failure.
	leastPause = time.Minute
)

// State is the state of a pool.
type State string

// States of a pool.
const (
	// Closed: pods with a spot slot are limited to spot, except the successors of those that waited without success.
	Closed State = "closed"
	// Open: all pods are limited to on-demand until spot is tried again.
	Open State = "open"
	// HalfOpen: one pod may try spot.
	HalfOpen State = "half-open"
)

// Pool is the circuit breaker of the spot nodes that some pods may use. Pods that may use other nodes have another one: zones run out
// of spot one by one. The zero value is one without any attempt. It is not safe for concurrent use.
type Pool struct {
	mark Mark
	// reported: the last failure was one that an autoscaler reported.
	reported bool
	// opened is when the circuit breaker last opened: failures of attempts that started earlier are ignored.
	opened time.Time
	// tries has when the pods were limited to spot that have no node yet, by ID.
	tries map[string]time.Time
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
	return len(p.tries) == 0 && !now.Before(p.mark.RetryAt.Add(mostWaits*atLeast(wait)))
}

// Choose decides the type of a pod whose gate is about to be removed. place: a spot node has room for it, so it need not wait for one. If
// it is called again for the same pod, it replaces the previous decision.
func (p *Pool) Choose(now time.Time, pod Pod, c *Credits, place bool) Verdict {
	p.Gone(pod.ID)
	c.withdraw(now, pod.ID)
	state := p.State(now, pod.Wait)
	if state == Closed && p.mark.Failures >= Threshold { // no attempt for this long
		p.Came()
	}
	until, owed := c.take(now, pod, place)
	if !place && (state == Open || state == HalfOpen && p.trying(now, pod.Wait) > 0) {
		return Verdict{Type: capacity.OnDemand, Mark: p.mark}
	}
	if owed {
		return Verdict{Type: capacity.OnDemand, Mark: p.markUntil(until), Successor: true}
	}
	p.Tries(now, pod)
	return Verdict{Type: capacity.Spot}
}

// markUntil is the mark of a pod that uses a credit.
func (p *Pool) markUntil(until time.Time) Mark {
	if p.mark.Failures > 0 {
		return p.mark
	}
	return Mark{Failures: 1, RetryAt: until}
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

// Tries records a pod that has been limited to spot since a time and has no node yet.
func (p *Pool) Tries(began time.Time, pod Pod) {
	if p.tries == nil {
		p.tries = map[string]time.Time{}
	}
	p.tries[pod.ID] = began
}

// Gone records that a pod tries no more: it has a node, is deleted, or is limited to on-demand.
func (p *Pool) Gone(id string) { delete(p.tries, id) }

// Came closes the circuit breaker: one of its pods has a spot node, or a spot node has room for one.
func (p *Pool) Came() { p.mark.Failures, p.reported = 0, false }

// Reported reports whether the circuit breaker is not closed because autoscalers reported that they launch no node.
func (p *Pool) Reported(now time.Time, wait time.Duration) bool {
	return p.reported && p.State(now, wait) != Closed
}

// Failed records that a pod that was limited to spot waited without success, until its wait was over or, if reported is set, until an
// autoscaler reported that it launches no node for the pod. ok is false if no attempt of the pod is known. Its successor may be limited
// to on-demand until the returned time.
func (p *Pool) Failed(now time.Time, pod Pod, reported bool) (until time.Time, ok bool) {
	began, tried := p.tries[pod.ID]
	if !tried {
		return time.Time{}, false
	}
	state, wait := p.State(now, pod.Wait), atLeast(pod.Wait)
	delete(p.tries, pod.ID)
	switch {
	case state == Closed:
		if p.mark.Failures >= Threshold || !now.Before(p.mark.RetryAt.Add(wait)) {
			p.mark.Failures = 0 // the previous failures were long ago
		}
		p.fail(now, wait, 0, reported) // it was no probe
	case state == HalfOpen && !began.Before(p.opened):
		p.fail(now, wait, now.Sub(began), reported)
	}
	return latest(p.mark.RetryAt, wholeSecond(now.Add(wait))), true
}

// Blocked records that a pod that was limited to spot waited without success although a spot node has room for it: its own constraints
// on its siblings, for example, keep it from there. It is no failure of spot. The results are those of Failed.
func (p *Pool) Blocked(now time.Time, pod Pod) (until time.Time, ok bool) {
	_, tried := p.tries[pod.ID]
	delete(p.tries, pod.ID)
	return wholeSecond(now.Add(atLeast(pod.Wait))), tried
}

// fail counts a failure, and opens the circuit breaker if there were enough.
func (p *Pool) fail(now time.Time, wait, probed time.Duration, reported bool) {
	p.mark.Failures = min(p.mark.Failures+1, mostFailures)
	p.reported = reported
	retry := wholeSecond(now.Add(p.pause(wait, probed)))
	if p.mark.Failures > 1 {
		retry = latest(p.mark.RetryAt, retry) // the mark of the last failure is the newest one
	}
	p.mark.RetryAt = retry
	if p.mark.Failures >= Threshold {
		p.opened = now
	}
}

// pause is for how long spot is not tried after a failure. A probe that is over when an autoscaler reports takes seconds: the next one
// may come as early as its costs allow. One that lasts for the whole wait is repeated twice as late each time.
func (p *Pool) pause(wait, probed time.Duration) time.Duration {
	if p.reported {
		return min(max(leastPause, probeShare*probed), mostWaits*wait)
	}
	pause := wait
	for n := Threshold; n < p.mark.Failures && pause < mostWaits*wait; n++ {
		pause *= 2
	}
	return pause
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

func atLeast(wait time.Duration) time.Duration { return max(wait, leastWait) }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// wholeSecond rounds up: a mark has no fractions of a second.
func wholeSecond(t time.Time) time.Time {
	return t.UTC().Add(time.Second - 1).Truncate(time.Second)
}
