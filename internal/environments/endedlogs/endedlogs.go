// SPDX-License-Identifier: Apache-2.0

// Package endedlogs keeps the last lines of containers that ended in the data of a Secret, within bounds.
package endedlogs

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"berth.dev/berth/internal/environments/podlogs"
	"berth.dev/berth/internal/kube/hash"
)

// Secret is the name of the Secret, in the namespace that an environment runs in. A Secret, because logs may contain what only some
// users may read.
const Secret = "ended-logs"

// MaxBytes is how much is kept of one container, MaxContainers of how many of an environment: together less than half of what the API
// server stores in an object.
const (
	MaxBytes      = 16 << 10
	MaxContainers = 20
)

// separator is between the parts of a key: no name of a component has it.
const separator = "."

// Key returns the key of a container of a component, by the ID that the runtime gave it.
func Key(component, containerID string) string {
	return component + separator + hash.Of(containerID, hash.Label)
}

// Tail keeps the last lines that are written to it, of at most MaxBytes.
type Tail struct {
	lines int
	text  []byte
}

// NewTail returns a tail of so many lines.
func NewTail(lines int) *Tail { return &Tail{lines: lines} }

// Write implements io.Writer.
func (t *Tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b...)
	if len(t.text) > 4*MaxBytes { // not for each write
		t.text = slices.Clone(last(t.text, t.lines))
	}
	return len(b), nil
}

// Bytes returns the lines.
func (t *Tail) Bytes() []byte { return last(t.text, t.lines) }

// last returns the last lines of a text that are not more than MaxBytes. Of a longer line its end is left.
func last(text []byte, lines int) []byte {
	cut := false
	if len(text) > MaxBytes {
		text, cut = text[len(text)-MaxBytes:], true
	}
	start := len(text)
	for n := 0; n < lines && start > 0; n++ {
		start = bytes.LastIndexByte(bytes.TrimSuffix(text[:start], []byte("\n")), '\n') + 1
	}
	if next := bytes.IndexByte(text, '\n') + 1; cut && start == 0 && next < len(text) {
		start = next // half a line
	}
	return text[start:]
}

// Add returns data with the log of a container. The logs with the oldest last lines are left out if there are too many.
func Add(data map[string][]byte, key string, text []byte) map[string][]byte {
	data = maps.Clone(data)
	if data == nil {
		data = map[string][]byte{}
	}
	data[key] = text
	oldest := slices.SortedFunc(maps.Keys(data), func(a, b string) int {
		return cmp.Or(lastTime(data[a]).Compare(lastTime(data[b])), cmp.Compare(a, b))
	})
	for len(oldest) > MaxContainers {
		delete(data, oldest[0])
		oldest = oldest[1:]
	}
	return data
}

// lastTime is the time of the last line, zero if it has none.
func lastTime(text []byte) time.Time {
	text = bytes.TrimSuffix(text, []byte("\n"))
	line, err := podlogs.NewReader(bytes.NewReader(text[bytes.LastIndexByte(text, '\n')+1:]), time.Time{}).Next()
	if err != nil {
		return time.Time{}
	}
	return line.At
}

// Streams returns the logs that are kept of components, nil for all, since a time, except those of containers with some IDs. Tail limits
// the number of lines of each, 0 is all. No line is read yet.
func Streams(data map[string][]byte, components, exceptIDs []string, tail int, since time.Time) (streams []*podlogs.Stream) {
	for _, k := range logs(data, components, exceptIDs, tail) {
		streams = append(streams, &podlogs.Stream{Component: k.component, Reader: podlogs.NewReader(bytes.NewReader(k.text), since)})
	}
	return streams
}

// kept are the lines of a container that ended.
type kept struct {
	component string
	text      []byte
}

// logs returns what is kept, in the order of the keys: see Streams.
func logs(data map[string][]byte, components, exceptIDs []string, tail int) (list []kept) {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		component, _, _ := strings.Cut(key, separator)
		known := slices.ContainsFunc(exceptIDs, func(id string) bool { return Key(component, id) == key })
		if known || components != nil && !slices.Contains(components, component) {
			continue
		}
		text := data[key]
		if tail > 0 {
			text = last(text, tail)
		}
		list = append(list, kept{component, text})
	}
	return list
}
