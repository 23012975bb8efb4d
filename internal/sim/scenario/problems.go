// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Problem is what is wrong with a field.
type Problem struct {
	// Line is that of the field in the file, or, where it is missing, of what should have it.
	Line int
	*field.Error
}

// Problems is all that is wrong with a file.
type Problems struct {
	Name string
	List []Problem
}

// mostPrinted bounds the problems in a text.
const mostPrinted = 50

// Error has a line for each problem.
func (p *Problems) Error() string {
	var b strings.Builder
	for i := range p.List[:min(len(p.List), mostPrinted)] {
		problem := &p.List[i]
		fmt.Fprintf(&b, "%s:%d: ", p.Name, problem.Line)
		if f := problem.Field; f != "" && f != "<nil>" { // apimachinery's text of the document itself
			b.WriteString(f + ": ")
		}
		b.WriteString(problem.ErrorBody() + "\n")
	}
	if more := len(p.List) - mostPrinted; more > 0 {
		fmt.Fprintf(&b, "%s: and %d more\n", p.Name, more)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// problemsOf joins what the decoder and the validation found. A field that the decoder refused has no value to validate.
func problemsOf(name string, d *decoder, invalid field.ErrorList) error {
	refused := map[string]bool{}
	for _, p := range d.problems {
		refused[p.Field] = true
	}
	list := d.problems
	for _, err := range invalid {
		if !refused[err.Field] {
			list = append(list, Problem{d.line(err.Field), err})
		}
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Field, b.Field)) })
	return &Problems{Name: name, List: list}
}

// line is that of a field, or of the nearest one above it that is set.
func (d *decoder) line(path string) int {
	for path != "" {
		if line, set := d.lines[path]; set {
			return line
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return max(1, d.lines[""])
}
