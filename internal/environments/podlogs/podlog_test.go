// SPDX-License-Identifier: Apache-2.0

package podlogs

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// Whatever a log has, each line comes out once, in order, and can be sent.
func FuzzLines(f *testing.F) {
	f.Add("2025-01-02T03:04:05.123456789Z hello\n2025-01-02T03:04:06Z \n")
	f.Add("no time\n\n\r\n\xff")
	f.Add("2025-01-02T03:04:05Z")
	f.Fuzz(func(t *testing.T, log string) {
		lines := all(t, NewReader(strings.NewReader(log), time.Time{}))
		for _, l := range lines {
			require.True(t, utf8.ValidString(l.Text))
			require.True(t, l.At.Year() >= 1 && l.At.Year() <= 9999)
		}
		want := strings.Count(log, "\n")
		if rest := strings.TrimRight(log[strings.LastIndex(log, "\n")+1:], "\r"); rest != "" {
			want++
		}
		require.Len(t, lines, want)
	})
}

func all(t require.TestingT, r *Reader) (lines []Line) {
	for {
		l, err := r.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		require.NoError(t, err)
		lines = append(lines, l)
	}
}

// A log that is cut off wherever, and read again from the last second of what was read, as the API server has it, gives each
// line once, however many were written at the same time.
func TestReadingGoesOnWhereItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Date(2026, time.July, 1, 12, 0, 0, 0, time.UTC)
		var log, want []string
		for i := range rapid.IntRange(1, 20).Draw(t, "lines") {
			at = at.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 1, 300_000_000, 2_000_000_000}).Draw(t, "later")))
			want = append(want, fmt.Sprint("line ", i))
			log = append(log, at.Format(time.RFC3339Nano)+" "+want[i]+"\n")
		}
		var got []string
		var p Position
		for len(got) < len(log) {
			from := p.At.Truncate(time.Second)
			n := 0
			for !p.At.IsZero() && parse(log[n]).At.Before(from) {
				n++
			}
			// One line at least that was not read before, or there would be no end.
			until := rapid.IntRange(len(got)+1, len(log)).Draw(t, "until")
			for _, l := range all(t, p.Resume(strings.NewReader(strings.Join(log[n:until], "")))) {
				p.Note(l)
				got = append(got, l.Text)
			}
		}
		assert.Equal(t, want, got)
	})
}

// The lines of several logs come in the order of their times, and those of one time in that of the logs. Each log ends once.
func TestLogsAreMergedByTheirTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var streams []*Stream
		var want []Line
		for i := range rapid.IntRange(0, 6).Draw(t, "logs") {
			at, log := time.Unix(0, 0).UTC(), ""
			for range rapid.IntRange(1, 8).Draw(t, "lines") {
				at = at.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "later")))
				want = append(want, Line{at, fmt.Sprint(i)})
				log += at.Format(time.RFC3339Nano) + " " + fmt.Sprint(i) + "\n"
			}
			streams = append(streams, &Stream{Reader: NewReader(strings.NewReader(log), time.Time{}), Component: fmt.Sprint(i)})
			require.NoError(t, streams[i].Advance())
		}
		slices.SortStableFunc(want, func(a, b Line) int { return a.At.Compare(b.At) })
		var got []Line
		var ended []*Stream
		require.NoError(t, Merge(streams, func(s *Stream) error { got = append(got, s.Line); return nil }, func(s *Stream, err error) {
			require.ErrorIs(t, err, io.EOF)
			ended = append(ended, s)
		}))
		require.Equal(t, want, got)
		require.ElementsMatch(t, streams, ended)
	})
}

func TestLines(t *testing.T) {
	at := time.Date(2026, time.July, 1, 12, 0, 0, 0, time.UTC)
	for raw, want := range map[string]Line{
		"2026-07-01T12:00:00.5Z two  words ": {at.Add(500 * time.Millisecond), "two  words "},
		"2026-07-01T12:00:00Z":               {at, ""},
		"":                                   {},
		"no time":                            {Text: "no time"},
		"2026-07-01 x":                       {Text: "2026-07-01 x"},
		"0000-07-01T12:00:00Z x":             {Text: "0000-07-01T12:00:00Z x"},
		"2026-07-01T12:00:00Z \xff":          {at, "\uFFFD"},
	} {
		assert.Equal(t, want, parse(raw), raw)
	}
	lines := all(t, NewReader(strings.NewReader("2026-07-01T12:00:00Z early\n2026-07-01T12:00:01Z late\nno time\n"), at.Add(time.Second)))
	assert.Equal(t, []Line{{at.Add(time.Second), "late"}, {Text: "no time"}}, lines)
}

func TestTheContainerThatRanLast(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "c://before"}}
	for name, tc := range map[string]struct {
		status  corev1.ContainerStatus
		id      string
		running bool
	}{
		"runs":                     {corev1.ContainerStatus{ContainerID: "c://a", State: running}, "c://a", true},
		"runs without an id yet":   {corev1.ContainerStatus{RestartCount: 2, State: running}, "restart 2", true},
		"has ended":                {corev1.ContainerStatus{ContainerID: "c://a", State: ended}, "c://a", false},
		"waits to be run again":    {corev1.ContainerStatus{LastTerminationState: ended}, "c://before", false},
		"has not run":              {corev1.ContainerStatus{}, "", false},
		"waits, and its id is not": {corev1.ContainerStatus{RestartCount: 3, LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}, "restart 2", false},
	} {
		id, is := Started(&tc.status)
		assert.Equal(t, tc.id, id, name)
		assert.Equal(t, tc.running, is, name)
	}
}
