// SPDX-License-Identifier: Apache-2.0

package console

import (
	"slices"
	"strings"
	"unicode/utf8"

	"berth.dev/berth/internal/kube/display"
)

// diffLine is a line of a comparison: Op is + for one that is added, - for one that is removed, and a space otherwise.
type diffLine struct{ Op, Text string }

// maxDiff bounds the lines that are compared, without those at the beginning and the end that are the same.
const maxDiff = 1000

// diffOf compares texts line by line.
func diffOf(before, after string) (lines []diffLine) {
	a, b := linesOf(before), linesOf(after)
	add := func(op string, of []string) {
		for _, text := range of {
			lines = append(lines, diffLine{op, text})
		}
	}
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	add(" ", a[:head])
	x, y := a[head:len(a)-tail], b[head:len(b)-tail]
	if len(x) > maxDiff || len(y) > maxDiff {
		add("-", x)
		add("+", y)
	} else {
		compareLines(x, y, add)
	}
	add(" ", a[len(a)-tail:])
	return shownDiff(lines)
}

// sameShown is how many characters a long line shows that are the same in both texts, before those that differ.
const sameShown = 40

// shownDiff are the lines as they are shown. What is behind the first characters of a long line is not shown, so such a line begins where
// it differs from those that it replaces, or that replace it.
func shownDiff(lines []diffLine) []diffLine {
	shown := make([]diffLine, len(lines))
	for i := 0; i < len(lines); {
		end := i
		for end < len(lines) && lines[end].Op != " " {
			end++
		}
		for j := i; j < end; j++ {
			shown[j] = diffLine{lines[j].Op, inertLine(lines[j].differing(lines[i:end]))}
		}
		if i = end; i < len(lines) {
			shown[i] = diffLine{lines[i].Op, inertLine(lines[i].Text)}
			i++
		}
	}
	return shown
}

// differing is the text of a line from where it differs from the most similar line of the other text, if it is too long to be shown.
func (l *diffLine) differing(others []diffLine) string {
	if len(l.Text) <= maxLine && len(display.Inert(l.Text, 2*maxLine)) <= maxLine {
		return l.Text
	}
	same := 0
	for i := range others {
		if others[i].Op != l.Op {
			same = max(same, commonPrefix(l.Text, others[i].Text))
		}
	}
	from := max(0, same-sameShown)
	for from > 0 && !utf8.RuneStart(l.Text[from]) {
		from--
	}
	if from == 0 {
		return l.Text
	}
	return "... " + l.Text[from:]
}

func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// linesOf are the lines of a text, none of an empty one.
func linesOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// compareLines adds lines so that those in both, in one order, are as many as possible.
func compareLines(a, b []string, add func(op string, lines []string)) {
	same := make([][]int, len(a)+1) // same[i][j] is how many lines a[i:] and b[j:] have in common
	for i := range same {
		same[i] = make([]int, len(b)+1)
	}
	for i, line := range slices.Backward(a) {
		for j, other := range slices.Backward(b) {
			if line == other {
				same[i][j] = same[i+1][j+1] + 1
			} else {
				same[i][j] = max(same[i+1][j], same[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			add(" ", a[i:i+1])
			i, j = i+1, j+1
		case same[i+1][j] >= same[i][j+1]:
			add("-", a[i:i+1])
			i++
		default:
			add("+", b[j:j+1])
			j++
		}
	}
	add("-", a[i:])
	add("+", b[j:])
}
