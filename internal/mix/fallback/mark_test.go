// SPDX-License-Identifier: Apache-2.0

package fallback

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
)

func TestAMarkIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Mark{
			Failures: rapid.IntRange(1, mostFailures).Draw(t, "failures"),
			RetryAt:  time.Unix(rapid.Int64Range(0, 1<<36).Draw(t, "retryAt"), 0).UTC(),
		}
		got, err := ParseMark(want.String())
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func TestInvalidMarks(t *testing.T) {
	for name, text := range map[string]string{
		"empty":                 "",
		"no time":               "3",
		"an empty time":         "3/",
		"no failures":           "/2026-11-21T15:00:00Z",
		"zero failures":         "0/2026-11-21T15:00:00Z",
		"a negative number":     "-1/2026-11-21T15:00:00Z",
		"more than is counted":  "1000/2026-11-21T15:00:00Z",
		"a time without a zone": "3/2026-11-21T15:00:00",
		"something after it":    "3/2026-11-21T15:00:00Z/4",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseMark(text)
			assert.Error(t, err)
		})
	}
}

func TestOnlyThePodThatFellBackHasAMark(t *testing.T) {
	with := func(claim string) map[string]string {
		return map[string]string{v1alpha1.FallbackAnnotation: "3/2026-11-21T15:00:00Z", v1alpha1.ClaimAnnotation: claim}
	}
	m, ok := MarkOf(with("a/on-demand"), "a")
	assert.True(t, ok)
	assert.Equal(t, Mark{Failures: 3, RetryAt: time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC)}, m)
	for name, annotations := range map[string]map[string]string{
		"of another pod":     with("b/on-demand"),
		"limited to spot":    with("a/spot"),
		"never gated":        {v1alpha1.FallbackAnnotation: "3/2026-11-21T15:00:00Z"},
		"did not fall back":  {v1alpha1.ClaimAnnotation: "a/on-demand"},
		"cannot be read":     {v1alpha1.ClaimAnnotation: "a/on-demand", v1alpha1.FallbackAnnotation: "soon"},
		"nothing on the pod": nil,
	} {
		t.Run(name, func(t *testing.T) {
			_, ok := MarkOf(annotations, "a")
			assert.False(t, ok)
		})
	}
}

func FuzzParseMark(f *testing.F) {
	for _, seed := range []string{
		"3/2026-11-21T15:00:00Z", "999/0001-01-01T00:00:00+23:59", "1/9999-12-31T23:59:59.9Z", "0/", "//", "\x00/\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMark(text)
		if err != nil {
			return
		}
		assert.True(t, m.Failures >= 1 && m.Failures <= mostFailures)
		again, err := ParseMark(m.String())
		if y := m.RetryAt.Year(); y < 0 || y > 9999 {
			return // RFC 3339 has no such years, but a time zone can result in one
		}
		require.NoError(t, err)
		assert.Equal(t, m, again)
	})
}
