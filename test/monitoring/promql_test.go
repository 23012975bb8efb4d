// SPDX-License-Identifier: Apache-2.0

package monitoring_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The parser of Prometheus is not among Berth's modules, and one test is no
// reason to take it in. What follows finds the selectors of an expression. It
// refuses unknown syntax, so that nothing is passed over.

// selector is one vector selector of an expression.
type selector struct {
	metric   string
	matchers []matcher
}

// matcher is one condition of a selector.
type matcher struct{ label, op, value string }

// query is what an expression reads.
type query struct {
	selectors []selector
	// grouping are the labels of by, without, on, ignoring, group_left and group_right.
	grouping []string
}

var (
	functions = strings.Fields(`abs absent absent_over_time avg_over_time ceil changes clamp clamp_max clamp_min count_over_time
		deriv floor histogram_quantile idelta increase irate label_join label_replace last_over_time max_over_time min_over_time
		quantile_over_time rate resets round scalar sort sort_desc sum_over_time time timestamp vector`)
	aggregations = strings.Fields("avg bottomk count count_values group max min quantile stddev stdvar sum topk")
	groupings    = strings.Fields("by without on ignoring group_left group_right")
	operators    = strings.Fields("and or unless bool offset atan2 inf nan")
)

// parse finds out what an expression reads.
func parse(expr string) (*query, error) {
	tokens, err := lex(expr)
	if err != nil {
		return nil, err
	}
	p := &reader{tokens: tokens, query: &query{}}
	for !p.done() {
		if err := p.step(); err != nil {
			return nil, fmt.Errorf("%w in %q", err, expr)
		}
	}
	if len(p.open) > 0 {
		return nil, fmt.Errorf("%q is not closed in %q", p.open, expr)
	}
	if len(p.query.selectors) == 0 {
		return nil, fmt.Errorf("no metric in %q", expr)
	}
	return p.query, nil
}

// reader goes through the tokens of an expression.
type reader struct {
	tokens []string
	query  *query
	open   []string
}

func (p *reader) done() bool { return len(p.tokens) == 0 }

func (p *reader) peek() string {
	if p.done() {
		return ""
	}
	return p.tokens[0]
}

func (p *reader) next() string {
	t := p.peek()
	if !p.done() {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *reader) step() error {
	switch t := p.next(); {
	case t == "(":
		p.open = append(p.open, t)
	case t == ")":
		if len(p.open) == 0 {
			return fmt.Errorf("%q without %q", ")", "(")
		}
		p.open = p.open[:len(p.open)-1]
	case t == "[":
		for p.peek() != "]" {
			if p.done() {
				return fmt.Errorf("%q is not closed", "[")
			}
			p.next()
		}
		p.next()
	case t == "{" || t == "}" || t == "]":
		return fmt.Errorf("%q without the name of a metric", t)
	case isName(t):
		return p.name(t)
	}
	return nil
}

// name reads what begins with a name.
func (p *reader) name(t string) error {
	switch {
	case slices.Contains(operators, strings.ToLower(t)):
		return nil
	case slices.Contains(groupings, t):
		if p.peek() != "(" {
			return nil // group_left without labels
		}
		for p.next(); p.peek() != ")"; p.next() {
			switch {
			case p.done():
				return fmt.Errorf("the labels of %s do not end", t)
			case isName(p.peek()):
				p.query.grouping = append(p.query.grouping, p.peek())
			case p.peek() != ",":
				return fmt.Errorf("%q among the labels of %s", p.peek(), t)
			}
		}
		p.next()
		return nil
	case slices.Contains(aggregations, t) && (p.peek() == "(" || p.peek() == "by" || p.peek() == "without"):
		return nil
	case p.peek() == "(":
		if !slices.Contains(functions, t) {
			return fmt.Errorf("unknown function %s", t)
		}
		return nil
	}
	s := selector{metric: t}
	if p.peek() == "{" {
		for p.next(); p.peek() != "}"; {
			m := matcher{label: p.next(), op: p.next(), value: p.next()}
			if !isName(m.label) || !slices.Contains([]string{"=", "!=", "=~", "!~"}, m.op) || !strings.HasPrefix(m.value, `"`) {
				return fmt.Errorf("cannot read the matcher %s%s%s", m.label, m.op, m.value)
			}
			m.value = strings.Trim(m.value, `"`)
			s.matchers = append(s.matchers, m)
			if p.peek() == "," {
				p.next()
			} else if p.peek() != "}" {
				return fmt.Errorf("%q after a matcher of %s", p.peek(), t)
			}
		}
		p.next()
	}
	p.query.selectors = append(p.query.selectors, s)
	return nil
}

// lex cuts an expression into tokens. Only between brackets, where a duration
// is allowed, may there be a variable of Grafana's outside of a string.
func lex(expr string) (tokens []string, err error) {
	bracket := false
	for i := 0; i < len(expr); {
		from := i
		switch c := expr[i]; {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			i++
			continue
		case c == '"':
			end := strings.IndexByte(expr[i+1:], '"')
			if end < 0 {
				return nil, fmt.Errorf("a string does not end in %q", expr)
			}
			i += end + 2
		case isLetter(c) || isDigit(c):
			for i < len(expr) && (isLetter(expr[i]) || isDigit(expr[i]) || expr[i] == '.') {
				i++
			}
		case i+1 < len(expr) && slices.Contains([]string{"=~", "!~", "!=", "==", ">=", "<="}, expr[i:i+2]):
			i += 2
		case strings.IndexByte("()[]{},=<>+-*/%^@", c) >= 0, bracket && c == '$':
			bracket = c == '[' || bracket && c != ']'
			i++
		default:
			return nil, fmt.Errorf("unknown character %q in %q", c, expr)
		}
		tokens = append(tokens, expr[from:i])
	}
	return tokens, nil
}

func isLetter(c byte) bool {
	return c == '_' || c == ':' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isName(t string) bool { return t != "" && isLetter(t[0]) && !strings.Contains(t, ".") }

func TestExpressionsAreRead(t *testing.T) {
	one := func(name string, m ...matcher) []selector { return []selector{{name, m}} }
	tests := map[string]query{
		"up":                                 {selectors: one("up")},
		"up > 0":                             {selectors: one("up")},
		"2 * up + 1.5e3":                     {selectors: one("up")},
		"max(a:b_total) == 1":                {selectors: one("a:b_total")},
		`up{job="a",on!~"b|c",}`:             {selectors: one("up", matcher{"job", "=", "a"}, matcher{"on", "!~", "b|c"})},
		`up{}`:                               {selectors: one("up")},
		`rate(x_total{}[5m])`:                {selectors: one("x_total")},
		`x offset 5m @ 1609746000`:           {selectors: one("x")},
		`rate(x_total[$__rate_interval])`:    {selectors: one("x_total")},
		`max_over_time(rate(x[5m])[1h:30s])`: {selectors: one("x")},
		`sum by (a, b) (x)`:                  {selectors: one("x"), grouping: []string{"a", "b"}},
		`sum(x) without(a)`:                  {selectors: one("x"), grouping: []string{"a"}},
		`topk(3, max by () (x))`:             {selectors: one("x")},
		`absent(up{job="a b{c"} == 1) or y unless z`: {selectors: []selector{
			{"up", []matcher{{"job", "=", "a b{c"}}}, {"y", nil}, {"z", nil},
		}},
		`a * on (x) group_left (y) b / ignoring(z) group_right c`: {
			selectors: []selector{{"a", nil}, {"b", nil}, {"c", nil}}, grouping: []string{"x", "y", "z"},
		},
		`histogram_quantile(0.99, sum by (le) (rate(x_bucket{n=~"$n"}[1h])))`: {
			selectors: one("x_bucket", matcher{"n", "=~", "$n"}), grouping: []string{"le"},
		},
		`count / sum`: {selectors: []selector{{"count", nil}, {"sum", nil}}}, // they are names where no parenthesis follows
	}
	for expr, want := range tests {
		t.Run(expr, func(t *testing.T) {
			got, err := parse(expr)
			require.NoError(t, err)
			assert.Equal(t, &want, got)
		})
	}
}

func TestAnInvalidExpressionIsRefused(t *testing.T) {
	for _, expr := range []string{
		"", "1 + 1", "sum(x", "sum x)", "rate(x[5m)", "ratee(x[5m])", "sum by (a x", "sum by (1) (x)", "$x", "x # y",
		"up{", `up{job="a}`, `{job="a"}`, `up{job}`, `up{job=a}`, `up{job="a" b="c"}`,
	} {
		_, err := parse(expr)
		assert.Error(t, err, "%q", expr)
	}
}
