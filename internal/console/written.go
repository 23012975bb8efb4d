// SPDX-License-Identifier: Apache-2.0

package console

import (
	"net/http"

	"berth.dev/berth/internal/mix/overview"
)

// maxWritten bounds the changes that are kept for a session until the next reading, which may fail for long. Earlier ones show when they
// are read.
const maxWritten = 16

// written are the changes of one session that the last reading may lack.
type written struct {
	changes []writtenChange
	// of and shown are the last state for all, and the same with the changes.
	of, shown *state
}

// writtenChange is a change of a reading, and the number of readings that had begun before it.
type writtenChange struct {
	change func(*overview.Reading)
	after  int
}

// sessionOf is the session of a request, "" where there is only one.
func sessionOf(r *http.Request) string {
	if a, ok := r.Context().Value(accountKey{}).(*Account); ok {
		return a.Session
	}
	return ""
}

// begin returns the number of a reading that begins.
func (h *hub) begin() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readings++
	return h.readings
}

// wrote shows a change to the session that wrote it, until a reading that begins afterwards. Users of other sessions may not list what it
// wrote, although they share the reading.
func (h *hub) wrote(session string, change func(*overview.Reading)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.written[session]
	if w == nil {
		w = &written{}
		h.written[session] = w
	}
	if len(w.changes) == maxWritten {
		w.changes = w.changes[1:]
	}
	w.changes = append(w.changes, writtenChange{change, h.readings})
	w.of = nil
	h.wakeAll()
}

// forget ends the changes from before a reading. The caller holds the lock.
func (h *hub) forget(reading int) {
	for session, w := range h.written {
		for len(w.changes) > 0 && w.changes[0].after < reading {
			w.changes = w.changes[1:]
		}
		if len(w.changes) == 0 {
			delete(h.written, session)
		}
	}
}

// stateOf is the state that a session sees: the same one until something changes. The caller holds the lock.
func (h *hub) stateOf(session string) *state {
	w := h.written[session]
	if w == nil || h.last == nil || h.last.Reading == nil {
		return h.last
	}
	if w.of != h.last {
		own, r := *h.last, *h.last.Reading
		for _, c := range w.changes {
			c.change(&r)
		}
		own.Reading = &r
		w.of, w.shown = h.last, &own
	}
	return w.shown
}
