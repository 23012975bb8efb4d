// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth.dev/berth/internal/cli/printers"
)

// watchInterval is the time from one reading of --watch to the next.
const watchInterval = 2 * time.Second

// WatchFlag adds -w to a command that lists: it lists again and again, and prints what is new or other than before.
func (o *Options) WatchFlag(cmd *cobra.Command) {
	watch := false
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "After listing, print what changes. The list is read again every 2 seconds.")
	list := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !watch {
			return list(cmd, args)
		}
		return o.watch(cmd.Context(), func() error { return list(cmd, args) })
	}
}

// watch lists until the context ends. An error ends it at the first reading only: later ones may be short.
func (o *Options) watch(ctx context.Context, list func() error) error {
	o.changes = &changes{tables: map[string]*tableChanges{}, printed: map[string]bool{}}
	defer func() { o.changes = nil }()
	ticker := time.NewTicker(cmp.Or(o.WatchInterval, watchInterval))
	defer ticker.Stop()
	failure := ""
	for first := true; ; first = false {
		o.changes.reading++
		switch err := list(); {
		case err == nil:
			failure = ""
			o.changes.end(o.ErrOut)
		case ctx.Err() != nil:
			return nil // the user ended it
		case first:
			return err
		case err.Error() != failure:
			failure = err.Error()
			fmt.Fprintf(o.ErrOut, "Warning: %s\n", failure)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// changes are what --watch has printed.
type changes struct {
	reading int
	tables  map[string]*tableChanges // by their headers
	last    *tableChanges
	printed map[string]bool
	object  string
}

// tableChanges are the rows of a table that were printed, in columns that keep their width.
type tableChanges struct {
	lines *printers.Lines
	rows  map[string]*watchedRow
}

// watchedRow is a row as it was printed last, and the reading that had it last.
type watchedRow struct {
	name, text string
	reading    int
}

// once reports whether a sentence was not printed before; without --watch, always.
func (c *changes) once(text string) bool {
	if c == nil {
		return true
	}
	printed := c.printed[text]
	c.printed[text] = true
	return !printed
}

// isNew reports whether an object is not the one that was printed last; without --watch, always.
func (c *changes) isNew(object string) bool {
	if c == nil {
		return true
	}
	same := c.object == object
	c.object = object
	return !same
}

// write prints the rows of a table that are new or other than before.
func (c *changes) write(out io.Writer, t *printers.Table) error {
	header := strings.Join(t.Header, " ")
	w := c.tables[header]
	if w == nil {
		w = &tableChanges{rows: map[string]*watchedRow{}, lines: t.Lines(out)}
		c.tables[header] = w
	}
	var changed [][]string
	for _, row := range t.Rows {
		if w.changed(t, row, c.reading) {
			changed = append(changed, row)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if c.last != w {
		if c.last != nil {
			fmt.Fprintln(out)
		}
		changed = slices.Insert(changed, 0, t.Header)
	}
	c.last = w
	return w.lines.Write(changed)
}

// changed notes a row, and reports whether it is new or other than before. Its age does not count.
func (w *tableChanges) changed(t *printers.Table, row []string, reading int) bool {
	cells := slices.Clone(row[:len(t.Header)])
	if age := slices.Index(t.Header, "AGE"); age >= 0 {
		cells[age] = ""
	}
	text := strings.Join(cells, "\x00")
	key := strings.Join(row[:t.KeyColumns()], "\x00")
	before := w.rows[key]
	w.rows[key] = &watchedRow{name: t.NameOf(row), text: text, reading: reading}
	return before == nil || before.text != text
}

// end names the rows that the last reading did not have.
func (c *changes) end(errOut io.Writer) {
	var gone []string
	for _, w := range c.tables {
		for key, row := range w.rows {
			if row.reading != c.reading {
				gone = append(gone, row.name)
				delete(w.rows, key)
			}
		}
	}
	slices.Sort(gone)
	for _, name := range gone {
		fmt.Fprintf(errOut, "%s is gone.\n", name)
	}
}
