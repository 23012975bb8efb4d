// SPDX-License-Identifier: Apache-2.0

package console

import (
	"hash/maphash"
	"html"
	"html/template"
	"strings"
)

// page is a page as it is now.
type page struct {
	title string
	parts []*part
}

// part is an element of a page that is replaced as a whole when it changes, or, if it has rows that stay the same rows, row by row.
type part struct {
	id string
	// before and after enclose the rows.
	before, after template.HTML
	rows          []row
	// fixed is set for a part that is not replaced: what the user types would be lost.
	fixed bool
}

// row is a part of a part.
type row struct {
	id   string
	html template.HTML
	// of is the hash of the HTML, and text what it shows.
	of   uint64
	text string
}

func newRow(id string, made template.HTML) row {
	return row{id: id, html: made, of: hash(string(made))}
}

// textOf is the text of HTML that a template has made, without the letters of ribbons.
func textOf(made template.HTML) string {
	var b strings.Builder
	for rest := string(made); rest != ""; {
		before, after, _ := strings.Cut(rest, "<")
		b.WriteString(before)
		if strings.HasPrefix(after, "i ") {
			_, after, _ = strings.Cut(after, "</i")
		}
		_, rest, _ = strings.Cut(after, ">")
	}
	return html.UnescapeString(b.String())
}

// replacement is sent to a browser: the new HTML of an element.
type replacement struct {
	ID   string `json:"id"`
	HTML string `json:"html,omitempty"`
	// Gone is set for an element that is removed. Into is set for a row that comes or moves: the part that it is in, where it follows the
	// row After, or is the first one.
	Gone  bool   `json:"gone,omitempty"`
	Into  string `json:"into,omitempty"`
	After string `json:"after,omitempty"`
}

// ageID is the part that every reading changes.
const ageID = "age"

// hash identifies what a page shows, but for its age.
func (p *page) hash() uint64 {
	var all uint64
	for _, part := range p.parts {
		if part.id != ageID && !part.fixed {
			all = all*31 + hash(string(part.before), string(part.after))
			for _, r := range part.rows {
				all = all*31 + r.of
			}
		}
	}
	return all
}

// following are the ids of the parts that a stream replaces.
func (p *page) following() (ids []string) {
	for _, part := range p.parts {
		if !part.fixed {
			ids = append(ids, part.id)
		}
	}
	return ids
}

// HTML is the whole part.
func (p *part) HTML() template.HTML {
	var b strings.Builder
	b.WriteString(string(p.before))
	for _, r := range p.rows {
		b.WriteString(string(r.html))
	}
	b.WriteString(string(p.after))
	return template.HTML(b.String()) //nolint:gosec // parts are made by templates, which escape
}

// changed returns what a browser lacks, and remembers that it has it. Of a part that was not sent before, it lacks all, unless it has
// the part from the page.
func (p *part) changed(sent *sentParts, fromPage bool) []replacement {
	frame := hash(string(p.before), string(p.after))
	old, known := sent.hashes[p.id]
	before := sent.rows[p.id]
	sent.hashes[p.id], sent.rows[p.id] = frame, p.rowIDs()
	if known && old == frame {
		return p.rowChanges(sent, before)
	}
	for _, r := range p.rows {
		sent.replaced(r)
	}
	if !known && fromPage {
		return nil
	}
	return []replacement{{ID: p.id, HTML: string(p.HTML())}}
}

var seed = maphash.MakeSeed()

func hash(texts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, t := range texts {
		_, _ = h.WriteString(t)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}
