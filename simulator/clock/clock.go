// SPDX-License-Identifier: Apache-2.0

// Package clock has the time of a simulation: it passes only from one event to the next.
package clock

import (
	"container/heap"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Clock has the events of a simulation. Functions that are due are called by Step, one after the other, by the goroutine that calls it.
// Any goroutine may read the time and add events.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	events events
	added  uint64
}

var (
	_ clock.WithTicker           = &Clock{}
	_ clock.WithDelayedExecution = &Clock{}
)

// New returns a clock with a time and without an event.
func New(start time.Time) *Clock { return &Clock{now: start} }

// event is a function that is called at a time. Of those of one time, the one that was added first is.
type event struct {
	at   time.Time
	turn uint64
	call func()
	// index is the place in the heap, -1 once the event is over.
	index int
}

// Now returns the time of the simulation.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Since returns the time since another one.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// At has a function called at a time, now if that is past.
func (c *Clock) At(at time.Time, call func()) *Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &event{call: call}
	c.add(e, at)
	return &Timer{clock: c, event: e}
}

// add is called under mu.
func (c *Clock) add(e *event, at time.Time) {
	if at.Before(c.now) {
		at = c.now
	}
	c.added++
	e.at, e.turn = at, c.added
	heap.Push(&c.events, e)
}

// Next returns the time of the next event, false if there is none.
func (c *Clock) Next() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.events) == 0 {
		return time.Time{}, false
	}
	return c.events[0].at, true
}

// Step lets the time pass until the next event and calls its function. It returns false if there is no event.
func (c *Clock) Step() bool {
	c.mu.Lock()
	if len(c.events) == 0 {
		c.mu.Unlock()
		return false
	}
	e := heap.Pop(&c.events).(*event)
	if e.at.After(c.now) {
		c.now = e.at
	}
	c.mu.Unlock()
	e.call()
	return true
}

// Pass lets a while pass that something took. Events that were due meanwhile come after it.
func (c *Clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// AfterFunc has a function called after a while.
func (c *Clock) AfterFunc(d time.Duration, call func()) clock.Timer {
	return c.At(c.Now().Add(d), call)
}

// After returns a channel that receives the time after a while.
func (c *Clock) After(d time.Duration) <-chan time.Time { return c.NewTimer(d).C() }

// NewTimer returns a timer whose channel receives the time after a while.
func (c *Clock) NewTimer(d time.Duration) clock.Timer {
	t := &Timer{clock: c, c: make(chan time.Time, 1)}
	t.event = &event{call: t.fire}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(t.event, c.now.Add(d))
	return t
}

// Tick returns a channel that receives the time again and again.
func (c *Clock) Tick(d time.Duration) <-chan time.Time { return c.NewTicker(d).C() }

// NewTicker returns a ticker.
func (c *Clock) NewTicker(d time.Duration) clock.Ticker {
	t := &ticker{Timer: Timer{clock: c, c: make(chan time.Time, 1)}, every: d}
	t.event = &event{call: t.tick}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(t.event, c.now.Add(d))
	return t
}

// Sleep returns at once: what waits for time in a simulation is an event.
func (*Clock) Sleep(time.Duration) {}

// Timer is an event that can be stopped.
type Timer struct {
	clock *Clock
	event *event
	c     chan time.Time
}

// C returns the channel of a timer, nil for one that calls a function.
func (t *Timer) C() <-chan time.Time { return t.c }

// Stop has the event not come. It returns false if it has come.
func (t *Timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	if t.event.index < 0 {
		return false
	}
	heap.Remove(&t.clock.events, t.event.index)
	return true
}

// Reset has the event come after a while from now. It returns whether it was to come.
func (t *Timer) Reset(d time.Duration) bool {
	active := t.Stop()
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.clock.add(t.event, t.clock.now.Add(d))
	return active
}

func (t *Timer) fire() {
	select {
	case t.c <- t.clock.Now():
	default: // nobody reads the last one
	}
}

type ticker struct {
	Timer
	every time.Duration
}

func (t *ticker) Stop() { t.Timer.Stop() }

func (t *ticker) tick() {
	t.fire()
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.clock.add(t.event, t.clock.now.Add(t.every))
}

type events []*event

func (e events) Len() int { return len(e) }

func (e events) Less(i, j int) bool {
	if e[i].at.Equal(e[j].at) {
		return e[i].turn < e[j].turn
	}
	return e[i].at.Before(e[j].at)
}

func (e events) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].index, e[j].index = i, j
}

func (e *events) Push(x any) {
	added := x.(*event)
	added.index = len(*e)
	*e = append(*e, added)
}

func (e *events) Pop() any {
	last := len(*e) - 1
	popped := (*e)[last]
	(*e)[last] = nil
	*e, popped.index = (*e)[:last], -1
	return popped
}
