// SPDX-License-Identifier: Apache-2.0

// Package podlogs reads the logs of containers line by line, and goes on where it
// was when one is read again.
package podlogs

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"time"
)

const (
	// MaxLine is how long a line may be, in bytes; what is longer is cut.
	MaxLine = 1 << 20
	// maxTime is more than the time in front of a line has.
	maxTime = 64
)

// Line is a line of a log.
type Line struct {
	// At is when it was written, zero if the kubelet gave no time.
	At time.Time
	// Text is what was written, without the end of the line. It is UTF-8.
	Text string
}

// Reader reads the lines of a log that begin with their times.
type Reader struct {
	log    *bufio.Reader
	closer io.Closer // nil if the log cannot be closed
	// from leaves out what is earlier, and skip is how many lines of just that time were read before.
	from time.Time
	skip int
}

// NewReader reads a log from a time on; zero is all of it. The API server has a resolution of seconds: what is too early within the first
// one is left out.
func NewReader(log io.Reader, from time.Time) *Reader {
	closer, _ := log.(io.Closer)
	return &Reader{log: bufio.NewReader(log), closer: closer, from: from}
}

// Close closes the log. It was only read, so that no error matters.
func (r *Reader) Close() {
	if r.closer != nil {
		_ = r.closer.Close()
	}
}

// Next reads a line; io.EOF means that there is none. A last line without its end is one too.
func (r *Reader) Next() (Line, error) {
	for {
		raw, err := r.raw()
		if err != nil && (raw == "" || !errors.Is(err, io.EOF)) {
			return Line{}, err
		}
		l := parse(raw)
		switch {
		case !l.At.IsZero() && l.At.Before(r.from):
		case r.skip > 0 && l.At.Equal(r.from):
			r.skip--
		default:
			return l, nil
		}
	}
}

// raw reads up to the end of a line, and keeps of it what a line may have.
func (r *Reader) raw() (string, error) {
	var b []byte
	for {
		part, err := r.log.ReadSlice('\n')
		if room := MaxLine + maxTime - len(b); room > 0 {
			b = append(b, part[:min(len(part), room)]...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return strings.TrimRight(string(b), "\r\n"), err
	}
}

// parse takes the time off a line. One that has none is all text.
func parse(raw string) Line {
	var l Line
	stamp, text, found := strings.Cut(raw, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	switch {
	case err != nil || at.Year() < 1 || at.Year() > 9999:
		text = raw
	case !found:
		l.At, text = at, ""
	default:
		l.At = at
	}
	if len(text) > MaxLine {
		text = text[:MaxLine] // half a character at the end is no UTF-8, and becomes a sign for that
	}
	l.Text = strings.ToValidUTF8(text, "\uFFFD")
	return l
}
