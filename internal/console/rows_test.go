// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"html/template"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// applied is what the script of the pages makes of the rows of a part.
func applied(rows []row, changes []replacement) []row {
	rows = slices.Clone(rows)
	index := func(id string) int { return slices.IndexFunc(rows, func(r row) bool { return r.id == id }) }
	for _, c := range changes {
		i := index(c.ID)
		switch {
		case c.Gone:
			rows = slices.Delete(rows, i, i+1)
		case c.Into != "":
			if i >= 0 {
				rows = slices.Delete(rows, i, i+1)
			}
			at := 0
			if c.After != "" {
				at = index(c.After) + 1
			}
			rows = slices.Insert(rows, at, newRow(c.ID, template.HTML(c.HTML)))
		default:
			rows[i] = newRow(c.ID, template.HTML(c.HTML))
		}
	}
	return rows
}

// Whatever rows come, go, move or change, a browser that makes the changes has the new rows, and no row is sent that has neither changed
// nor has to move.
func TestRowsFollow(t *testing.T) {
	drawRows := rapid.Custom(func(t *rapid.T) []row {
		ids := rapid.SliceOfNDistinct(rapid.IntRange(0, 12), 0, 12, rapid.ID).Draw(t, "ids")
		rows := make([]row, len(ids))
		for i, id := range ids {
			rows[i] = newRow(fmt.Sprint("r", id), template.HTML(fmt.Sprint(id, rapid.IntRange(0, 2).Draw(t, "content"))))
		}
		return rows
	})
	rapid.Check(t, func(t *rapid.T) {
		sent := newSentParts()
		var shown []row
		for step := range 4 {
			p := &part{id: "list", rows: drawRows.Draw(t, "rows")}
			before := shown
			changes := p.changed(sent, step == 0)
			if step == 0 {
				require.Empty(t, changes, "the page has it")
				shown = p.rows
				continue
			}
			shown = applied(before, changes)
			require.Equal(t, p.rows, shown)
			for _, c := range changes {
				at := slices.IndexFunc(before, func(r row) bool { return r.id == c.ID })
				if c.Into == "" && !c.Gone {
					require.NotEqual(t, before[at].html, template.HTML(c.HTML))
				}
			}
		}
	})
}

// One row that moves to the top is one row that is sent.
func TestARowThatMovesIsSentAlone(t *testing.T) {
	before := []string{"a", "b", "c", "d", "e"}
	assert.Equal(t, map[string]bool{"a": true, "b": true, "c": true, "e": true}, staying(before, []string{"d", "a", "b", "c", "e"}))
	assert.Equal(t, map[string]bool{"b": true, "c": true, "d": true, "e": true}, staying(before, []string{"b", "c", "d", "e", "a"}))
	assert.Empty(t, staying(nil, before))
	assert.Len(t, staying(before, []string{"e", "d", "c", "b", "a"}), 1)
}

// A longest list of rows stays.
func TestAsManyRowsAsPossibleStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SliceOfNDistinct(rapid.StringMatching("[a-h]"), 0, 8, rapid.ID)
		before, after := draw.Draw(t, "before"), draw.Draw(t, "after")
		require.Len(t, staying(before, after), longest(before, after))
	})
}

// longest is the length of the longest common subsequence.
func longest(a, b []string) int {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	if a[0] == b[0] {
		return 1 + longest(a[1:], b[1:])
	}
	return max(longest(a[1:], b), longest(a, b[1:]))
}
