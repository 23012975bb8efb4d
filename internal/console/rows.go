// SPDX-License-Identifier: Apache-2.0

package console

import "slices"

// settled are the rows that stay where they are when an order becomes another one: a longest list of rows that is in the same order in
// both. All others move, come or go. A row is in an order at most once.
func settled(before, after []string) map[string]bool {
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
		ends = append(ends[:n], append([]string{id}, ends[min(n+1, len(ends)):]...)...)
	}
	keep := map[string]bool{}
	for n, id := len(ends), ""; n > 0; n-- {
		if id = previous[id]; n == len(ends) {
			id = ends[n-1]
		}
		keep[id] = true
	}
	return keep
}

// rowChanges are what a browser lacks that has rows in an order before.
func (p *part) rowChanges(sent *sentParts, before []string) (changes []replacement) {
	after := p.rowIDs()
	keep := settled(before, after)
	there := make(map[string]bool, len(after))
	for _, id := range after {
		there[id] = true
	}
	for _, id := range before {
		if !there[id] {
			delete(sent.hashes, id)
			changes = append(changes, replacement{ID: id, Gone: true})
		}
	}
	for i, r := range p.rows {
		changed := sent.replaced(r)
		switch {
		case !keep[r.id]:
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

func (p *part) rowIDs() []string {
	ids := make([]string, len(p.rows))
	for i := range p.rows {
		ids[i] = p.rows[i].id
	}
	return ids
}
