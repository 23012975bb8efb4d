// SPDX-License-Identifier: Apache-2.0

package display

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Inert returns a text that a terminal shows and does not execute: printable ASCII, at most limit bytes. Every other character is
// shown as an escape sequence of Go, a line break as a space.
func Inert(s string, limit int) string {
	if len(s) <= limit && !strings.ContainsFunc(s, hostile) {
		return s
	}
	const end = "..."
	var out strings.Builder
	for i, r := range s {
		c := escaped(r, s[i:])
		if out.Len()+len(c) > limit-len(end) {
			out.WriteString(end)
			break
		}
		out.WriteString(c)
	}
	return out.String()
}

func hostile(r rune) bool { return r < ' ' || r > '~' }

func escaped(r rune, rest string) string {
	switch {
	case r == utf8.RuneError && !strings.HasPrefix(rest, string(utf8.RuneError)):
		return fmt.Sprintf(`\x%02x`, rest[0])
	case r == '\n' || r == '\t':
		return " "
	case !hostile(r):
		return string(r)
	case r < 0x80:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}
