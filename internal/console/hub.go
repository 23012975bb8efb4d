// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"fmt"
	"sync"
	"time"

	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/prices"
)

const (
	// readTimeout bounds a reading, and slowAfter is when a page reports that it takes long.
	readTimeout = 30 * time.Second
	slowAfter   = 4 * time.Second
	// share is the part of the time that is spent reading, at most: in a large cluster, a reading takes longer than the interval.
	share = 4
	// idleAfter is how long the cluster is read after the last page was closed.
	idleAfter = 10 * time.Second
	// firstWait is how long a page waits for the first reading. Without one, it shows that, and the stream has it loaded again.
	firstWait = 4 * time.Second
)

// state is the newest reading, and what failed since.
type state struct {
	*overview.Reading
	// at is when the reading began, zero before the first.
	at time.Time
	// failure is why there is no newer reading, empty if the last one succeeded.
	failure string
	// writable is set if the pages can change the cluster, plans if they answer what a change of a mix would do, and reports if they have
	// texts of commands.
	writable, plans, reports bool
	// prices are those of the nodes that were read last then, nil for those that are built in.
	prices *prices.Reading
	// rows are those of workloads in lists, and what workloads save, which many pages have: each is made once for a reading.
	rows *sync.Map
	// moves are those of the workload of a page, nil if they were not read.
	moves *movesRead
	// now is the clock of ages, nil for none.
	now func() time.Time
}

// row is a workload of the reading in a list.
func (s *state) row(w *overview.Workload) row {
	return once(s, w, func() row {
		r := workloadRow(w, s.savedOf(w))
		r.text = textOf(r.html)
		return r
	})
}

// once is what is made once for a reading. Each type of key is of one type of value.
func once[T any](s *state, key any, of func() T) T {
	if made, ok := s.rows.Load(key); ok {
		return made.(T) //nolint:forcetypeassert // nothing else is stored for it
	}
	made := of()
	s.rows.Store(key, made)
	return made
}

// hub reads for all pages together.
type hub struct {
	source   Source
	interval time.Duration
	now      func() time.Time
	// writable, plans, reports and prices are those of each state.
	writable, plans, reports bool
	prices                   func() prices.Reading

	mu sync.Mutex // guards the rest
	// readings counts those that have begun.
	readings int
	// last is nil before the first reading. changed is closed when it is replaced, and when a session writes.
	last    *state
	changed chan struct{}
	// written is what sessions have written since the last reading. Others see it when it is read with their rights.
	written map[string]*written
	// viewers are open streams and requests that wait. wanted is when there was one last; wake has a reading begin.
	viewers int
	wanted  time.Time
	wake    chan struct{}
}

func newHub(source Source, interval time.Duration, now func() time.Time) *hub {
	return &hub{
		source: source, interval: interval, now: now, prices: builtIn,
		changed: make(chan struct{}), written: map[string]*written{}, wake: make(chan struct{}, 1),
	}
}

// run reads until the context ends.
func (h *hub) run(ctx context.Context) {
	for ctx.Err() == nil {
		if !h.inUse() {
			select {
			case <-h.wake:
			case <-ctx.Done():
			}
			continue
		}
		began := h.now()
		h.read(ctx)
		pause := time.NewTimer(max(h.interval, share*h.now().Sub(began)))
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
}

func (h *hub) inUse() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.viewers > 0 || h.now().Sub(h.wanted) < idleAfter
}

// read replaces the state. While a reading takes long, the pages report it.
func (h *hub) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	began := h.now()
	slow := time.AfterFunc(slowAfter, func() {
		h.failed(fmt.Sprintf("the API server has not responded for %s", slowAfter))
	})
	of := h.begin()
	r, err := h.source.Read(ctx)
	slow.Stop()
	if err != nil {
		h.failed(plainly(err))
		return
	}
	priced := h.prices()
	h.replace(func(s *state) {
		if r != s.Reading || s.prices == nil || priced != *s.prices { // rows of the same reading are rendered already
			s.rows = &sync.Map{}
		}
		s.Reading, s.at, s.failure, s.prices = r, began, "", &priced
		h.forget(of)
	})
}

// failed keeps the reading, with why there is no newer one.
func (h *hub) failed(why string) {
	h.replace(func(s *state) { s.failure = why })
}

func (h *hub) replace(change func(*state)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := &state{writable: h.writable, plans: h.plans, reports: h.reports, now: h.now}
	if h.last != nil {
		*next = *h.last
	}
	change(next)
	h.last = next
	h.wakeAll()
}

// wakeAll has all pages look for another state.
func (h *hub) wakeAll() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// current returns the state of a session at once, however old: the page has its age, and the stream brings the next one. Only without a
// reading does it wait, for a while.
func (h *hub) current(ctx context.Context, session string) (*state, error) {
	h.enter()
	defer h.leave()
	if s := h.peek(session); s != nil {
		return s, nil
	}
	first, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	s, err := h.after(first, session, nil)
	if err != nil && ctx.Err() == nil {
		return &state{writable: h.writable, plans: h.plans, reports: h.reports}, nil
	}
	return s, err
}

func (h *hub) peek(session string) *state {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stateOf(session)
}

// after returns the state of a session when it is another one.
func (h *hub) after(ctx context.Context, session string, s *state) (*state, error) {
	for {
		h.mu.Lock()
		last, changed := h.stateOf(session), h.changed
		h.mu.Unlock()
		if last != s {
			return last, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// enter and leave count the viewers. Each enter has its leave.
func (h *hub) enter() {
	h.mu.Lock()
	h.viewers++
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.viewers--
	h.wanted = h.now()
}
