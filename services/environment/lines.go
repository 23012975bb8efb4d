// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"time"
)

const (
	// maxLine is how long a line may be, in bytes; what is longer is cut.
	maxLine = 1 << 20
	// maxTime is more than the time in front of a line has.
	maxTime = 64
)

// line is a line of a log.
type line struct {
	at   time.Time // zero if the kubelet said none
	text string
}

// stream is the log of a container while it is read.
type stream struct {
	component, name string
	body            io.ReadCloser
	reader          *bufio.Reader
	// from leaves out what is earlier.
	from time.Time
	// line is the one that was read last.
	line line
}

func newStream(i *instance, body io.ReadCloser) *stream {
	return &stream{component: i.component, name: i.component + "/" + i.pod.Name, body: body, reader: bufio.NewReader(body)}
}

// close ends a stream. Nil has ended.
func (s *stream) close() {
	if s != nil {
		_ = s.body.Close() // it was only read
	}
}

// next reads a line; io.EOF says that there is none.
func (s *stream) next() error {
	for {
		raw, err := readLine(s.reader)
		if err != nil && (raw == "" || !errors.Is(err, io.EOF)) {
			return err
		}
		// A last line without its end is one too; the next read says that it was the last.
		if s.line = parseLine(raw); s.line.at.IsZero() || !s.line.at.Before(s.from) {
			return nil
		}
	}
}

// readLine reads up to the end of a line, and keeps of it what a line may have.
func readLine(r *bufio.Reader) (string, error) {
	var b []byte
	for {
		part, err := r.ReadSlice('\n')
		if room := maxLine + maxTime - len(b); room > 0 {
			b = append(b, part[:min(len(part), room)]...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return strings.TrimRight(string(b), "\r\n"), err
	}
}

// parseLine takes the time off a line. What is no UTF-8 could not be sent.
func parseLine(raw string) line {
	var l line
	stamp, text, found := strings.Cut(raw, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	switch {
	case err != nil || at.Year() < 1 || at.Year() > 9999:
		text = raw
	case !found:
		l.at, text = at, ""
	default:
		l.at = at
	}
	if len(text) > maxLine {
		text = text[:maxLine] // half a character at the end is no UTF-8, and becomes a sign for that
	}
	l.text = strings.ToValidUTF8(text, "\uFFFD")
	return l
}
