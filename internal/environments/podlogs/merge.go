// SPDX-License-Identifier: Apache-2.0

package podlogs

import (
	"cmp"
	"slices"
)

// Stream is the log of a component's container, and the line of it that was read last.
type Stream struct {
	*Reader
	Component string
	Line      Line

	place int
}

// Advance reads the next line; io.EOF means that there is none.
func (s *Stream) Advance() (err error) {
	s.Line, err = s.Next()
	return err
}

// Merge sends the lines of streams in the order of their times, in that of the streams where those are equal. The first line
// of each was read. Each is read only as far as the order needs, so that one line of each is all that is held. It calls ended
// with how reading each has ended: io.EOF at its end.
func Merge(streams []*Stream, send func(*Stream) error, ended func(*Stream, error)) error {
	order := func(a, b *Stream) int { return cmp.Or(a.Line.At.Compare(b.Line.At), cmp.Compare(a.place, b.place)) }
	for i, s := range streams {
		s.place = i
	}
	waiting := slices.SortedFunc(slices.Values(streams), order)
	for len(waiting) > 0 {
		s := waiting[0]
		if err := send(s); err != nil {
			return err
		}
		if err := s.Advance(); err != nil {
			ended(s, err)
			waiting = waiting[1:]
			continue
		}
		// The others are in order: it goes before the first that comes after it.
		others, _ := slices.BinarySearchFunc(waiting[1:], s, order)
		copy(waiting, waiting[1:others+1])
		waiting[others] = s
	}
	return nil
}
