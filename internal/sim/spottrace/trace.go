// SPDX-License-Identifier: Apache-2.0

// Package spottrace reads traces of how many spot nodes were available, and draws interruptions where there is only a rate. A trace has
// no data after its end: nothing is repeated, continued or interpolated.
package spottrace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

const (
	// MaxBytes is the size of the largest file.
	MaxBytes = 64 << 20
	// MaxAvailable is the largest number of nodes.
	MaxAvailable = 1_000_000
	// MaxEnd is the longest trace: ten years.
	MaxEnd = 3650 * 24 * time.Hour
)

// Trace is how many spot nodes were available over time.
type Trace struct {
	// Gap is the time between two ticks, 0 for a file that has times.
	Gap time.Duration
	// Steps are the changes, by time. The first is at 0, and each has another number than the one before.
	Steps []Step
	// End is when the data end: at and after it the number is unknown.
	End time.Duration
}

// Step is the number of nodes that are available from a time on.
type Step struct {
	At        time.Duration
	Available int
}

// At returns the number of nodes at a time, which is not known before 0 and from End on.
func (t *Trace) At(at time.Duration) (available int, known bool) {
	if at < 0 || at >= t.End {
		return 0, false
	}
	return t.Steps[t.after(at)-1].Available, true
}

// Next returns the first change after a time.
func (t *Trace) Next(at time.Duration) (Step, bool) {
	if i := t.after(at); i < len(t.Steps) {
		return t.Steps[i], true
	}
	return Step{}, false
}

// after returns the index of the first step after a time.
func (t *Trace) after(at time.Duration) int {
	i, found := slices.BinarySearchFunc(t.Steps, at, func(s Step, at time.Duration) int { return cmp.Compare(s.At, at) })
	if found {
		i++
	}
	return i
}

// add adds a number, which is a step if it differs from the last one.
func (t *Trace) add(at time.Duration, available int) {
	if n := len(t.Steps); n == 0 || t.Steps[n-1].Available != available {
		t.Steps = append(t.Steps, Step{at, available})
	}
}

// Load reads the trace in a file.
func Load(path string) (*Trace, error) {
	file, err := os.Open(path) //nolint:gosec // the user names it
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return Parse(path, file)
}

// Parse reads a trace: JSON that begins with {, or else CSV. Errors begin with the name and with the line.
func Parse(name string, r io.Reader) (*Trace, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%s: has more than %d bytes", name, MaxBytes)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // spreadsheets write it
	read := readCSV
	if text := bytes.TrimLeft(data, " \t\r\n"); len(text) == 0 {
		return nil, fmt.Errorf("%s:1: is empty", name)
	} else if text[0] == '{' {
		read = readJSON
	}
	trace, err := read(data)
	if at, ok := errors.AsType[*positionError](err); ok {
		return nil, fmt.Errorf("%s:%w", name, at)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return trace, nil
}

// positionError is an error at a place of a file.
type positionError struct {
	line, column int // the column is 0 where the line is enough
	message      string
}

// Error implements error.
func (e *positionError) Error() string {
	if e.column == 0 {
		return fmt.Sprintf("%d: %s", e.line, e.message)
	}
	return fmt.Sprintf("%d:%d: %s", e.line, e.column, e.message)
}
