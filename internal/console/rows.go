// SPDX-License-Identifier: Apache-2.0

package console

import "slices"

// staying are the rows that stay where they are when an order becomes another one: a longest list of rows that is in the same order in
// both. All others move, come or go. A row is in an order at most once.
func staying(before, after []string) map[string]bool {
	at := make(map[string]int, len(before))
	for i, id := range before {
		at[id] = i
	}
	// ends[n] is the row with which the list of n+1 rows ends that ends first in the order before, and previous is the row before it there.
	var ends []string
	previous := map[string]string{}
	for _, id := range after {
		position, known := at[id]
		if !known {
			continue
		}
		n, _ := slices.BinarySearchFunc(ends, position, func(end string, position int) int { return at[end] - position })
		if n > 0 {
			previous[id] = ends[n-1]
		}
		if n == len(ends) {
			ends = append(ends, "")
		}
		ends[n] = id
	}
	keep := map[string]bool{}
	if len(ends) > 0 {
		for id, known := ends[len(ends)-1], true; known; id, known = previous[id] {
			keep[id] = true
		}
	}
	return keep
}

// rowChanges are what a browser lacks that has rows in an order before. Mostly, the order is the same.
func (p *part) rowChanges(sent *sentParts, before []string) (changes []replacement) {
	stays := func(string) bool { return true }
	if after := p.rowIDs(); !slices.Equal(before, after) {
		keep := staying(before, after)
		stays = func(id string) bool { return keep[id] }
		changes = sent.removed(before, after)
	}
	for i, r := range p.rows {
		changed := sent.replaced(r)
		switch {
		case !stays(r.id):
			moved := replacement{ID: r.id, HTML: string(r.html), Into: p.id}
			if i > 0 {
				moved.After = p.rows[i-1].id
			}
			changes = append(changes, moved)
		case changed:
			changes = append(changes, replacement{ID: r.id, HTML: string(r.html)})
		}
	}
	return changes
}

// removed are the rows that are not there after, which it forgets.
func (s *sentParts) removed(before, after []string) (gone []replacement) {
	there := make(map[string]bool, len(after))
	for _, id := range after {
		there[id] = true
	}
	for _, id := range before {
		if !there[id] {
			delete(s.hashes, id)
			gone = append(gone, replacement{ID: id, Gone: true})
		}
	}
	return gone
}

func (p *part) rowIDs() []string {
	ids := make([]string, len(p.rows))
	for i := range p.rows {
		ids[i] = p.rows[i].id
	}
	return ids
}
