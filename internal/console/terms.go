// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A form has the terms of a node affinity as text, one in a line: requirements, with "and" between them, as in
// "gpu In a100, h100 and old DoesNotExist". A preferred term has its weight before a colon. The names of labels and fields, operators and
// values have neither spaces nor commas.

// emptyValue is an empty value among those of a requirement, and ofField precedes one of a field instead of a label.
const emptyValue, ofField = `""`, "field"

// The lists of requirements of a term.
const matchExpressions, matchFields = "matchExpressions", "matchFields"

var betweenRequirements = regexp.MustCompile(`\s+and\s+`)

// termText is a term of a list as a line.
func termText(v any) string {
	term, _ := v.(map[string]any)
	before := ""
	if preference, is := term["preference"].(map[string]any); is {
		before, term = fmt.Sprintf("%v: ", term["weight"]), preference
	}
	var all []string
	for _, list := range []string{matchExpressions, matchFields} {
		requirements, _ := term[list].([]any)
		for _, r := range requirements {
			words := requirementText(r)
			if list == matchFields {
				words = ofField + " " + words
			}
			all = append(all, words)
		}
	}
	return before + strings.Join(all, " and ")
}

func requirementText(v any) string {
	r, _ := v.(map[string]any)
	values, _ := r["values"].([]any)
	texts := make([]string, 0, len(values))
	for _, value := range values {
		texts = append(texts, cmp.Or(fmt.Sprint(value), emptyValue))
	}
	return strings.TrimSpace(fmt.Sprintf("%v %v %s", r["key"], r["operator"], strings.Join(texts, ", ")))
}

// termsOf are the terms of the lines of a text.
func termsOf(text string, preferred bool) (any, error) {
	var terms []any
	for line := range filledLines(text) {
		weight, requirements, weighted := strings.Cut(line, ":")
		n, err := strconv.ParseInt(strings.TrimSpace(weight), 10, 32)
		if !preferred {
			requirements = line
		} else if !weighted || err != nil {
			return nil, fmt.Errorf("%q must begin with a weight from 1 to 100 and a colon, such as 50: disk In ssd", line)
		}
		term, err := termOf(requirements)
		if err != nil {
			return nil, err
		}
		if preferred {
			term = map[string]any{"weight": n, "preference": term}
		}
		terms = append(terms, term)
	}
	return terms, nil
}

func termOf(text string) (map[string]any, error) {
	term := map[string]any{}
	for _, words := range betweenRequirements.Split(text, -1) {
		fields, list := strings.Fields(words), matchExpressions
		if len(fields) > 2 && fields[0] == ofField && !slices.Contains(operators, fields[1]) {
			fields, list = fields[1:], matchFields
		}
		if len(fields) < 2 {
			return nil, fmt.Errorf("%q must be a label, an operator (%s) and values, such as gpu In a100, h100", strings.TrimSpace(words),
				strings.Join(operators, ", "))
		}
		r := map[string]any{"key": fields[0], "operator": fields[1]}
		if values := strings.Join(fields[2:], " "); values != "" {
			r["values"] = valuesOf(values)
		}
		all, _ := term[list].([]any)
		term[list] = append(all, r)
	}
	return term, nil
}

// operators are those of a requirement.
var operators = []string{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}

func valuesOf(text string) (values []any) {
	for value := range strings.SplitSeq(text, ",") {
		if value = strings.TrimSpace(value); value == emptyValue {
			value = ""
		}
		values = append(values, value)
	}
	return values
}
