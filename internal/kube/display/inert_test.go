// SPDX-License-Identifier: Apache-2.0

package display

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestInert(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "web-7dd8c6474c-1": "web-7dd8c6474c-1", "a\x1b[1mb": `a\x1b[1mb`, "a\nb\tc": "a b c", "\u202ea": `\u202ea`, "\xff": `\xff`,
		"\ufffd": `\ufffd`, "\U0001f600": `\U0001f600`, "\u009b": `\u009b`, "\x7f": `\x7f`, "123456789012345678901": "12345678901234567...",
	} {
		assert.Equal(t, want, Inert(in, 20), "%q", in)
	}
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(3, 40).Draw(t, "limit")
		out := Inert(string(rapid.SliceOf(rapid.Byte()).Draw(t, "text")), limit)
		require.LessOrEqual(t, len(out), limit)
		require.False(t, strings.ContainsFunc(out, func(r rune) bool { return r < ' ' || r > '~' }))
	})
}
