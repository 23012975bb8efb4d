// SPDX-License-Identifier: Apache-2.0

package endedlogs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// A line has the form in which a kubelet returns it.
func line(second int, text string) string {
	return time.Unix(int64(second), 0).UTC().Format(time.RFC3339Nano) + " " + text + "\n"
}

// What is kept is the end of what was written, whole lines, within both bounds, however it was written.
func TestATailIsTheEndOfALog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 1000).Draw(t, "lines")
		all := rapid.SliceOfN(rapid.StringMatching(`[a-z ]{0,200}`), 0, 400).Draw(t, "log")
		text := strings.Join(all, "\n")
		if len(all) > 0 && rapid.Bool().Draw(t, "ended") {
			text += "\n"
		}
		tail := NewTail(n)
		for rest := text; rest != ""; {
			k := rapid.IntRange(1, min(len(rest), 10_000)).Draw(t, "written")
			_, _ = tail.Write([]byte(rest[:k]))
			rest = rest[k:]
		}
		got := string(tail.Bytes())
		assert.True(t, strings.HasSuffix(text, got))
		assert.LessOrEqual(t, len(got), MaxBytes)
		assert.LessOrEqual(t, strings.Count(strings.TrimSuffix(got, "\n"), "\n"), n-1)
		if before := strings.TrimSuffix(text, got); before != "" {
			assert.True(t, strings.HasSuffix(before, "\n"), "a line is cut")
		}
	})
}

func TestALongLineLeavesItsEnd(t *testing.T) {
	tail := NewTail(10)
	_, _ = tail.Write([]byte(strings.Repeat("x", 10*MaxBytes)))
	assert.Len(t, tail.Bytes(), MaxBytes)
}

// The number of containers is bounded, and the last that ended are kept.
func TestTheLastContainersAreKept(t *testing.T) {
	var data map[string][]byte
	for i := range 3 * MaxContainers {
		data = Add(data, Key("backend", fmt.Sprint(i)), []byte(line(i, "bye")))
	}
	assert.Len(t, data, MaxContainers)
	assert.NotContains(t, data, Key("backend", "0"))
	long := []byte(line(0, "began") + line(1000, "ends now, and began long ago"))
	data = Add(data, Key("database", "x"), long)
	assert.Len(t, data, MaxContainers)
	assert.Equal(t, long, data[Key("database", "x")])
	total := 0
	for key, text := range data {
		total += len(key) + len(text)
	}
	assert.Less(t, total, 1<<19)
}

func TestLogsOfComponents(t *testing.T) {
	data := Add(nil, Key("backend", "a"), []byte(line(1, "one")+line(2, "two")))
	data = Add(data, Key("additional-service", "b"), []byte(line(3, "three")))
	assert.Equal(t, []kept{{"additional-service", []byte(line(3, "three"))}, {"backend", []byte(line(2, "two"))}}, logs(data, nil, nil, 1))
	assert.Equal(t, []kept{{"backend", []byte(line(1, "one") + line(2, "two"))}}, logs(data, []string{"backend"}, nil, 0))
	assert.Empty(t, logs(data, []string{"backend"}, []string{"a"}, 0), "its log is read from the kubelet")
}
