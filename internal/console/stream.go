// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// beat is the longest time between two events: a browser that receives nothing for longer reports that the connection is lost.
const beat = 5 * time.Second

// stream sends the parts of an open page that change, as server-sent events.
func (c *Console) stream(w http.ResponseWriter, r *http.Request) {
	at, err := url.Parse(r.URL.Query().Get("page"))
	if err != nil || at.Host != "" || at.Scheme != "" {
		http.Error(w, "page must be the path of a page", http.StatusBadRequest)
		return
	}
	out := newEvents(w)
	c.hub.enter()
	defer c.hub.leave()
	sent := newSentParts()
	var s *state
	has, last, moves := r.URL.Query().Get("has"), time.Now(), c.movesOf(r, at)
	for {
		ctx, cancel := context.WithTimeout(r.Context(), beat)
		next, err := c.hub.after(ctx, sessionOf(r), s)
		cancel()
		if r.Context().Err() != nil {
			return
		}
		var what []byte
		if err == nil {
			s = next
			what = c.changes(at, moves.in(r.Context(), s, movesTimeout), sent, has)
		}
		if len(what) == 0 {
			if time.Since(last) < beat {
				continue
			}
			what = []byte("event: beat\ndata:\n\n")
		}
		if err := out.send(what); err != nil {
			return
		}
		last = time.Now()
	}
}

// sentParts are what a browser has: the hashes of elements and, for each part, its rows, by the id of the element.
type sentParts struct {
	hashes map[string]uint64
	rows   map[string][]string
}

func newSentParts() *sentParts {
	return &sentParts{hashes: map[string]uint64{}, rows: map[string][]string{}}
}

// replaced reports whether a row has changed, and remembers it.
func (s *sentParts) replaced(r row) bool {
	changed := s.hashes[r.id] != r.of
	s.hashes[r.id] = r.of
	return changed
}

// changes are the events for what changed on a page since the last call or, at first, all that differs from the page with the hash
// that the browser has. A page that is gone shows why.
func (c *Console) changes(at *url.URL, s *state, sent *sentParts, has string) (events []byte) {
	p, err := pageOf(at, s)
	if err != nil {
		p = failed(err)
	}
	loaded := len(sent.hashes) == 0 && strconv.FormatUint(p.hash(), 36) == has
	for _, part := range p.parts {
		if part.fixed {
			continue
		}
		for _, changed := range part.changed(sent, loaded) {
			event, err := eventOf(changed)
			if err != nil {
				c.log.Error("Encode a part of a page", "id", changed.ID, "err", err)
				continue
			}
			events = append(events, event...)
		}
	}
	return events
}
