// SPDX-License-Identifier: Apache-2.0

package spottrace

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func minutes(n int) time.Duration { return time.Duration(n) * time.Minute }

func TestBothFormatsOfATraceGiveTheSameSteps(t *testing.T) {
	want := []Step{{0, 0}, {minutes(10), 3}, {minutes(20), 7}, {minutes(35), 0}, {minutes(40), 5}}
	for file, gap := range map[string]time.Duration{"up-and-down.json": minutes(5), "up-and-down.csv": 0} {
		trace, err := Load(filepath.Join("testdata", file))
		require.NoError(t, err)
		assert.Equal(t, &Trace{Gap: gap, Steps: want, End: minutes(50)}, trace, file)
	}
}

func TestATraceHasNoDataAfterItsEnd(t *testing.T) {
	trace, err := Load("testdata/up-and-down.json")
	require.NoError(t, err)
	for at, want := range map[time.Duration]int{0: 0, minutes(10) - 1: 0, minutes(10): 3, minutes(19): 3, minutes(36): 0, minutes(50) - 1: 5} {
		got, known := trace.At(at)
		assert.True(t, known, at)
		assert.Equal(t, want, got, at)
	}
	for _, at := range []time.Duration{-1, minutes(50), minutes(500)} {
		_, known := trace.At(at)
		assert.False(t, known, at)
	}
	_, more := trace.Next(minutes(40))
	assert.False(t, more, "the end is no change")
	next, more := trace.Next(-1)
	assert.True(t, more)
	assert.Equal(t, Step{0, 0}, next)
}

func TestAnErrorOfATraceNamesItsPlaceAndItsValue(t *testing.T) {
	for text, want := range map[string]string{
		"":      "x:1: is empty",
		" \n\t": "x:1: is empty",
		`{`:     "x:1:2: the file ends within the trace",
		"{\"metadata\": {\"gap_seconds\": 300},\n \"data\": [0, 1,\n 2; 3]}":          "x:3:3: invalid character ';'",
		"{\"metadata\": {\"gap_seconds\": 300},\n \"data\": [0,\n -12]}":              "x:3:2: data[1]: -12 is negative",
		"{\"metadata\": {\"gap_seconds\": 300}, \"data\": [0, 1.5]}":                  "x:1:48: data[1]: \"1.5\" is not a whole number",
		"{\"metadata\": {\"gap_seconds\": 300}, \"data\": [1e3]}":                     "x:1:45: data[0]: \"1e3\" is not a whole number",
		"{\"metadata\": {\"gap_seconds\": 300}, \"data\": [null]}":                    "data[0]: null is not a number",
		"{\"metadata\": {\"gap_seconds\": 300}, \"data\": [[1, 2]]}":                  "x:1:45: data[0]: [ is not a number",
		"{\"metadata\": {\"gap_seconds\": 300}, \"data\": [1000001]}":                 "data[0]: 1000001 is not between 0 and 1000000",
		"{\"metadata\": {\"gap_seconds\": 300}, \"data\": [99999999999999999999]}":    "data[0]: 99999999999999999999 is not between",
		"{\"metadata\": {\"gap_seconds\": 300}, \"data\": []}":                        "data is empty",
		"{\"metadata\": {\"gap_seconds\": 300}, \"data\": {}}":                        "data: { is not a list of numbers",
		"{\"metadata\": {\"gap_seconds\": 300}}":                                      "x:1: data is missing",
		"{\"metadata\": {}, \"data\": [1]}":                                           "x:1: metadata.gap_seconds is missing",
		"{\"data\": [1]}":                                                             "x:1: metadata.gap_seconds is missing",
		"{\"metadata\": [], \"data\": [1]}":                                           "x:1:14: metadata: [ is not an object",
		"{\"metadata\": {\"gap_seconds\": 0}, \"data\": [1]}":                         "metadata.gap_seconds: 0 is not between 1 and",
		"{\"metadata\": {\"gap_seconds\": \"300\"}, \"data\": [1]}":                   "metadata.gap_seconds: \"300\" is not a number",
		"{\"metadata\": {\"gap_seconds\": 1, \"gap_seconds\": 2}, \"data\": [1]}":     "metadata.gap_seconds is set twice",
		"{\"metadata\": {\"gap_seconds\": 1}, \"data\": [1], \"data\": [2]}":          "x:1:55: data is set twice",
		"{\"metadata\": {\"gap_seconds\": 1}, \"data\": [1]} {}":                      "x:1:48: more follows the end",
		"{\"metadata\": {\"gap_seconds\": 200000000}, \"data\": [1, 1]}":              "2 numbers of 55555h33m20s are longer than 87600h0m0s",
		"time,available\n0,1\n":                                                       "x:1: \"time,available\" is neither JSON nor the header seconds,available",
		"[1, 2]":                                                                      "x:1: \"[1,2]\" is neither JSON",
		"seconds,available\n":                                                         "x:1: want at least two rows",
		"seconds,available\n0,1\n":                                                    "x:2: want at least two rows",
		"seconds,available\n10,1\n20,1\n":                                             "x:2: seconds: 10 is not 0",
		"seconds,available\n0,1\n60,2\n\n30,1\n":                                      "x:5: seconds: 30 is not after 60 of line 3",
		"seconds,available\n0,1\n60,2\n60,3\n":                                        "x:4: seconds: 60 is not after 60 of line 3",
		"seconds,available\n0,1\n60\n":                                                "x:3: 1 values are not 2",
		"seconds,available\n0,1\n60,-2\n":                                             "x:3: available: -2 is negative",
		"seconds,available\n0,1\n60,2.5\n":                                            "x:3: available: \"2.5\" is not a whole number",
		"seconds,available\n0,1\nNaN,2\n":                                             "x:3: seconds: \"NaN\" is not a whole number",
		"seconds,available\n0,1\n315360001,2\n":                                       "x:3: seconds: 315360001 is not between 0 and 315360000",
		"seconds,available\n0,\"1\n":                                                  "x:",
		"seconds,available\n0,1\n60,\"" + strings.Repeat("A", 500) + "\"\n":           "AAA",
		"{\"metadata\": {\"gap_seconds\": \"" + strings.Repeat("A", 500) + "\"}}":     "AAA",
		"{\"other\": " + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "": "x:",
	} {
		_, err := Parse("x", strings.NewReader(text))
		require.ErrorContains(t, err, want, "%.200s", text)
		assert.Less(t, len(err.Error()), 200, "a value is shortened")
	}
}

func TestALargeTraceIsRefusedBeforeItIsParsed(t *testing.T) {
	_, err := Parse("x", io.MultiReader(strings.NewReader(`{"data": [1`), endless{}))
	require.ErrorContains(t, err, "x: has more than 67108864 bytes")
}

// endless has no end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestAMissingTraceIsNamed(t *testing.T) {
	_, err := Load("testdata/none.json")
	require.ErrorContains(t, err, "testdata/none.json")
	_, err = Load("testdata")
	require.ErrorContains(t, err, "testdata")
}

func TestATraceWrittenInEitherFormatIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ticks := rapid.SliceOfN(rapid.IntRange(0, 4), 1, 40).Draw(t, "ticks")
		gap := rapid.IntRange(1, 600).Draw(t, "gap")
		numbers, err := json.Marshal(ticks)
		require.NoError(t, err)
		rows := "seconds,available\n"
		for i, n := range ticks {
			rows += fmt.Sprintf("%d,%d\n", i*gap, n)
		}
		rows += fmt.Sprintf("%d,9\n", len(ticks)*gap)
		for _, text := range []string{fmt.Sprintf(`{"data": %s, "metadata": {"gap_seconds": %d}}`, numbers, gap), rows} {
			trace, err := Parse("x", strings.NewReader(text))
			require.NoError(t, err)
			requireValid(t, trace)
			length := time.Duration(gap) * time.Second
			require.Equal(t, time.Duration(len(ticks))*length, trace.End)
			for i, n := range ticks {
				for _, at := range []time.Duration{time.Duration(i) * length, time.Duration(i+1)*length - 1} {
					got, known := trace.At(at)
					require.True(t, known)
					require.Equal(t, n, got)
				}
			}
		}
	})
}

// requireValid requires what the types promise of each trace.
func requireValid(t require.TestingT, trace *Trace) {
	require.NotEmpty(t, trace.Steps)
	require.Zero(t, trace.Steps[0].At)
	require.Less(t, trace.Steps[len(trace.Steps)-1].At, trace.End)
	require.LessOrEqual(t, trace.End, MaxEnd)
	var walked []Step
	for step, more := trace.Next(-1); more; step, more = trace.Next(step.At) {
		if n := len(walked); n > 0 {
			require.Greater(t, step.At, walked[n-1].At)
			require.NotEqual(t, step.Available, walked[n-1].Available)
		}
		got, known := trace.At(step.At)
		require.True(t, known)
		require.Equal(t, step.Available, got)
		require.True(t, step.Available >= 0 && step.Available <= MaxAvailable)
		walked = append(walked, step)
	}
	require.True(t, slices.Equal(trace.Steps, walked))
}

func FuzzParse(f *testing.F) {
	for _, file := range []string{"testdata/up-and-down.json", "testdata/up-and-down.csv"} {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		trace, err := Parse("trace", strings.NewReader(string(text)))
		if err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "trace:"))
			return
		}
		requireValid(t, trace)
	})
}

// The traces of others have no licence, so they are beside the project, if at all.
func TestPublicTracesAreRead(t *testing.T) {
	files, err := filepath.Glob("../../../../shared/traces/*.json")
	require.NoError(t, err)
	if len(files) == 0 {
		t.Skip("no ../shared/traces")
	}
	for _, file := range files {
		trace, err := Load(file)
		require.NoError(t, err)
		requireValid(t, trace)
		assert.Greater(t, len(trace.Steps), 1, file)
		assert.Greater(t, trace.End, time.Hour, file)
	}
}
