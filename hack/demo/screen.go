// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"berth.dev/berth/hack/cluster"
)

// width is the number of columns of the demo.
const width = 98

// ink is the color of a text in a terminal.
type ink string

const (
	plain    ink = ""
	bold     ink = "1"
	faint    ink = "2"
	green    ink = "32"
	red      ink = "1;31"
	spotInk  ink = "33"
	demand   ink = "36"
	borrowed ink = "1;35"
)

// screen writes for a user. Without colors it is plain ASCII with the same content.
type screen struct {
	out    io.Writer
	colour bool
}

// newScreen uses colors on a terminal unless the user disabled them.
func newScreen(out *os.File, noColour bool) *screen {
	return &screen{out: out, colour: !noColour && os.Getenv("NO_COLOR") == "" && cluster.IsTerminal(out)}
}

func (s *screen) paint(i ink, text string) string {
	if !s.colour || i == plain || text == "" {
		return text
	}
	return "\x1b[" + string(i) + "m" + text + "\x1b[0m"
}

// line writes one line, without trailing spaces.
func (s *screen) line(format string, args ...any) {
	fmt.Fprintln(s.out, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

// title starts an act.
func (s *screen) title(text string) {
	rule := strings.Repeat("=", max(3, width-utf8.RuneCountInString(text)-4))
	s.line("\n%s %s %s", s.paint(faint, "=="), s.paint(bold, text), s.paint(faint, rule))
}

// say writes a paragraph.
func (s *screen) say(format string, args ...any) {
	for _, l := range wrap(fmt.Sprintf(format, args...), width-2) {
		s.line("  %s", l)
	}
}

// quote writes a message of the cluster.
func (s *screen) quote(format string, args ...any) {
	for _, l := range wrap(fmt.Sprintf(format, args...), width-6) {
		s.line("    %s", s.paint(faint, "| ")+l)
	}
}

// command writes a command for the user, which may have several lines.
func (s *screen) command(format string, args ...any) {
	lines := strings.Split(fmt.Sprintf(format, args...), "\n")
	s.line("  %s %s", s.paint(faint, "$"), s.paint(bold, lines[0]))
	for _, l := range lines[1:] {
		s.line("      %s", s.paint(bold, l))
	}
}

// outputs writes the lines that a command printed.
func (s *screen) outputs(text string) {
	for line := range strings.Lines(text) {
		s.output(strings.TrimRight(line, " \n"))
	}
}

// output writes a line that a command printed. A sentence is wrapped, a row of a table is not.
func (s *screen) output(text string) {
	if strings.Contains(text, "   ") || text == "" {
		s.line("    %s", text)
		return
	}
	for i, l := range wrap(text, width-6) {
		if i > 0 {
			l = "  " + l
		}
		s.line("    %s", l)
	}
}

func (s *screen) gap() { s.line("") }

// verdict is the word at the end of a line that was checked.
func (s *screen) verdict(ok bool, good string) string {
	if ok {
		return s.paint(green, good)
	}
	return s.paint(red, "DIFFERS")
}

// wrap breaks a text into lines at spaces. A word that is too long gets its own line.
func wrap(text string, columns int) []string {
	var lines []string
	current := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case current == "":
			current = word
		case utf8.RuneCountInString(current)+1+utf8.RuneCountInString(word) > columns:
			lines, current = append(lines, current), word
		default:
			current += " " + word
		}
	}
	return append(lines, current)
}
