// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"fmt"
	"io"
)

// documentBounds bound what is read before it is decoded. A snapshot of 100,000 pods has 100 MB and 2 million JSON objects. An empty pod
// takes 3 bytes of a file and 1,400 of memory, an empty container 700.
var documentBounds = bounds{bytes: 512 << 20, objects: 4_000_000, item: 4 << 20}

// lines reads a document within its bounds, and keeps what a decoder has read ahead, to name the line of what is wrong.
type lines struct {
	r io.Reader
	// kept[start:] is what was read from offset on, which is in a line.
	kept           []byte
	start          int
	offset         int64
	line           int
	bytes, objects int
	bounds         bounds
}

// bounds are of a document.
type bounds struct{ bytes, objects, item int }

func newLines(r io.Reader, b bounds) *lines { return &lines{r: r, line: 1, bounds: b} }

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	l.bytes += n
	l.objects += bytes.Count(p[:n], []byte{'{'})
	switch {
	case l.bytes > l.bounds.bytes:
		return 0, fmt.Errorf("is larger than %d bytes", l.bounds.bytes)
	case l.objects > l.bounds.objects:
		return 0, fmt.Errorf("has more than %d JSON objects", l.bounds.objects)
	case len(l.kept)-l.start+n > l.bounds.item:
		return 0, fmt.Errorf("line %d: an object is larger than %d bytes", l.line, l.bounds.item)
	}
	if l.start > len(l.kept)/2 {
		l.kept = append(l.kept[:0], l.kept[l.start:]...)
		l.start = 0
	}
	l.kept = append(l.kept, p[:n]...)
	return n, err
}

// at returns the line of the next value behind an offset, which is not before that of the last call.
func (l *lines) at(offset int64) int {
	n := int(min(max(offset-l.offset, 0), int64(len(l.kept)-l.start)))
	for rest := l.kept[l.start+n:]; len(rest) > 0 && bytes.IndexByte([]byte(" \t\r\n,:"), rest[0]) >= 0; rest = rest[1:] {
		n++
	}
	l.line += bytes.Count(l.kept[l.start:l.start+n], []byte{'\n'})
	l.start, l.offset = l.start+n, l.offset+int64(n)
	return l.line
}
