// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bufio"
	"html"
	"io"
	"strconv"
)

// markup writes elements. It escapes all texts and values, and no template is executed: a program that can execute one keeps all
// methods of all types.
type markup struct {
	w *bufio.Writer
	// alone is set for a picture that is a file of its own.
	alone bool
}

func newMarkup(w io.Writer) *markup { return &markup{w: bufio.NewWriter(w)} }

// raw writes markup of this package.
func (m *markup) raw(s string) { _, _ = m.w.WriteString(s) } // Flush returns the error

// open begins an element. Attributes are names and values, in turn.
func (m *markup) open(element string, attributes ...string) { m.start(element, ">", attributes) }

func (m *markup) close(element string) { m.raw("</" + element + ">\n") }

// empty is an element without content.
func (m *markup) empty(element string, attributes ...string) { m.start(element, "/>\n", attributes) }

// leaf is an element with a text.
func (m *markup) leaf(element, text string, attributes ...string) {
	m.open(element, attributes...)
	m.raw(html.EscapeString(text))
	m.close(element)
}

func (m *markup) start(element, end string, attributes []string) {
	m.raw("<" + element)
	for i := 0; i+1 < len(attributes); i += 2 {
		m.raw(" " + attributes[i] + `="` + html.EscapeString(attributes[i+1]) + `"`)
	}
	m.raw(end)
}

// px is a coordinate or a length in a picture.
func px(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
