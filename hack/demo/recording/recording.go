// SPDX-License-Identifier: Apache-2.0

// Package recording draws what a program prints on a terminal as an SVG file that moves.
package recording

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Size is that of the terminal in characters.
type Size struct{ Columns, Rows int }

// The times of the picture do not depend on those of the run: a second run draws the same.
const (
	lineSeconds  = 0.18
	titleSeconds = 1.6
	endSeconds   = 6.0
)

const (
	charWidth, lineHeight = 8, 18
	margin                = 14
)

// colors are those of the codes of a terminal, on a dark background. They have a contrast of more than 4.5.
var colors = map[string]string{"1": "#ffffff", "2": "#9aa4b2", "32": "#7ee2a8", "1;31": "#ff8d85", "33": "#f3c969", "36": "#7cc7f2", "1;35": "#e3a6ff"}

var (
	code = regexp.MustCompile("\x1b\\[([0-9;]*)m")
	// hash are the random parts of names.
	hash = regexp.MustCompile(`\b([a-z]+-)([0-9a-f]{8,10})(-[a-z0-9]{5})?\b`)
	// random are the other texts that differ from run to run: durations and ports.
	random = regexp.MustCompile(`\b(after |took |in |: |  )?\d+(\.\d+)?( s| ms| seconds)\b`)
	port   = regexp.MustCompile(`\b127\.0\.0\.1:\d+\b`)
)

// steadyHash and steadyPod replace the random parts of names. They are as long, so columns stay.
const steadyHash, steadyPod = "7d9f8c6b5d", "-x2k9q"

// Steady replaces what differs from run to run although it means the same.
func Steady(line string) string {
	line = hash.ReplaceAllStringFunc(line, func(name string) string {
		parts := hash.FindStringSubmatch(name)
		return parts[1] + steadyHash[:len(parts[2])] + steadyPod[:len(parts[3])]
	})
	return port.ReplaceAllString(random.ReplaceAllString(line, "$1…$3"), "127.0.0.1:6443")
}

// SVG writes a recording of an output. title describes it for those who do not see it.
func SVG(out io.Writer, title, output string, size Size) error {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	var b bytes.Buffer
	width, height := size.Columns*charWidth+2*margin, size.Rows*lineHeight+2*margin
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" role="img">`, width, height, width)
	fmt.Fprintf(&b, "\n<title>%s</title>\n<style>\n", html.EscapeString(title))
	b.WriteString("text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#d6dde6;white-space:pre}.b{font-weight:bold}\n")
	frames(&b, lines, size.Rows)
	fmt.Fprintf(&b, "</style>\n<rect width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#141a22\"/>\n", width, height)
	fmt.Fprintf(&b, `<svg x="%d" y="%d" width="%d" height="%d"><g class="all">`, margin, margin, width-2*margin, height-2*margin)
	for i, line := range lines {
		line = Steady(line)
		if text := spans(line); text != "" {
			fmt.Fprintf(&b, "\n<text y=\"%d\"%s>%s</text>", i*lineHeight+13, squeezed(line, size.Columns), text)
		}
	}
	b.WriteString("</g></svg>\n</svg>\n")
	_, err := out.Write(b.Bytes())
	return err
}

// squeezed makes a line that is wider than the terminal as wide as it.
func squeezed(line string, columns int) string {
	if utf8.RuneCountInString(code.ReplaceAllString(line, "")) <= columns {
		return ""
	}
	return fmt.Sprintf(` textLength="%d" lengthAdjust="spacingAndGlyphs"`, columns*charWidth)
}

// frames scroll the lines, one at a time. With prefers-reduced-motion, the last lines stay.
func frames(b *bytes.Buffer, lines []string, rows int) {
	var at []float64
	now := 0.0
	for _, line := range lines {
		if at = append(at, now); strings.Contains(code.ReplaceAllString(line, ""), "== ") {
			now += titleSeconds
		}
		now += lineSeconds
	}
	total := now + endSeconds
	fmt.Fprintf(b, ".all{transform:translateY(%dpx);animation:all %.1fs step-end infinite}\n@keyframes all{\n", last(len(lines), rows), total)
	for i, t := range at {
		if i == 0 || last(i+1, rows) != last(i, rows) {
			fmt.Fprintf(b, "%.3f%%{transform:translateY(%dpx)}\n", t/total*100, last(i+1, rows))
		}
	}
	b.WriteString("}\n@media (prefers-reduced-motion:reduce){.all{animation:none}}\n")
}

// last is where the first line is while so many lines are shown, the last of them at the bottom.
func last(lines, rows int) int { return (rows - lines) * lineHeight }

// spans are the parts of a line in their colors.
func spans(line string) string {
	var b strings.Builder
	color := ""
	put := func(text string) {
		switch fill := colors[color]; {
		case text == "":
		case fill == "":
			b.WriteString(html.EscapeString(text))
		case color == "1" || strings.HasPrefix(color, "1;"):
			fmt.Fprintf(&b, `<tspan class="b" fill="%s">%s</tspan>`, fill, html.EscapeString(text))
		default:
			fmt.Fprintf(&b, `<tspan fill="%s">%s</tspan>`, fill, html.EscapeString(text))
		}
	}
	from := 0
	for _, at := range code.FindAllStringSubmatchIndex(line, -1) {
		put(line[from:at[0]])
		color, from = line[at[2]:at[3]], at[1]
	}
	put(line[from:])
	if strings.TrimSpace(code.ReplaceAllString(line, "")) == "" || !utf8.ValidString(line) {
		return ""
	}
	return b.String()
}
