// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// beat is the longest time between two events: a browser that receives nothing for longer reports that the connection is lost.
const beat = 5 * time.Second

// maxParts bounds the parts of a page.
const maxParts = 32

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
	sent := newSentParts(r.URL.Query()["parts"]...)
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

// newSentParts is what a browser has that has loaded a page with some parts.
func newSentParts(parts ...string) *sentParts {
	s := &sentParts{hashes: map[string]uint64{}, rows: map[string][]string{}}
	for _, id := range parts[:min(len(parts), maxParts)] {
		s.rows[id] = nil
	}
	return s
}

// replaced reports whether a row has changed, and remembers it.
func (s *sentParts) replaced(r row) bool {
	changed := s.hashes[r.id] != r.of
	s.hashes[r.id] = r.of
	return changed
}

// changes are the events for what changed on a page since the last call or, at first, all that differs from the page with the hash
// that the browser has. A page that is gone, such as that of an object that the user may not list any more, shows why, and nothing else.
func (c *Console) changes(at *url.URL, s *state, sent *sentParts, has string) (events []byte) {
	p, err := pageOf(at, s)
	if err != nil {
		p = failed(err)
	}
	loaded := len(sent.hashes) == 0 && strconv.FormatUint(p.hash(), 36) == has
	changes := sent.gone(p.parts)
	for _, part := range p.parts {
		if !part.fixed {
			changes = append(changes, part.changed(sent, loaded)...)
		}
	}
	for _, changed := range changes {
		event, err := eventOf(changed)
		if err != nil {
			c.log.Error("Encode a part of a page", "id", changed.ID, "err", err)
			continue
		}
		events = append(events, event...)
	}
	return events
}

// gone are the parts that a browser has and a page lacks, which it forgets with their rows.
func (s *sentParts) gone(parts []*part) (gone []replacement) {
	for _, id := range slices.Sorted(maps.Keys(s.rows)) {
		if slices.ContainsFunc(parts, func(p *part) bool { return p.id == id }) {
			continue
		}
		for _, row := range s.rows[id] {
			delete(s.hashes, row)
		}
		delete(s.rows, id)
		delete(s.hashes, id)
		gone = append(gone, replacement{ID: id, Gone: true})
	}
	return gone
}
