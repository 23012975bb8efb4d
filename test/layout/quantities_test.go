// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// quantityParsers parse a quantity whatever it costs: 1e2147483647 takes longer to compare than any call may, and a quantity of a
// million digits longer to parse.
var quantityParsers = []string{"ParseQuantity", "MustParse"}

// mayParseQuantities are the directories whose texts are of the administrator or of the user of the machine, and the one that has the
// bound.
var mayParseQuantities = []string{"internal/budget/", "apis/config/", "internal/cli/", "hack/", "test/"}

func TestQuantitiesOfOthersAreParsedWithABudget(t *testing.T) {
	sources := handWritten(t)
	constants := constantsOf(sources)
	for _, s := range sources {
		if s.isTest() || slices.ContainsFunc(mayParseQuantities, func(dir string) bool { return strings.HasPrefix(s.path, dir) }) {
			continue
		}
		for _, problem := range unboundedQuantities(s, constants[path.Dir(s.path)]) {
			t.Error(problem)
		}
	}
}

func TestTheRuleOfQuantitiesFindsEachParserOfAText(t *testing.T) {
	const header = "package a\n\nimport %s\"k8s.io/apimachinery/pkg/api/resource\"\n\nconst size = \"1Gi\"\n\n"
	for name, tc := range map[string]struct {
		alias, code string
		found       int
	}{
		"a literal":                {"", `var q = resource.MustParse("1Gi")`, 0},
		"a constant":               {"", `var q = resource.MustParse(size)`, 0},
		"a variable":               {"", `func f(text string) { resource.ParseQuantity(text) }`, 1},
		"a field":                  {"", `func f(o struct{ size string }) { resource.MustParse(o.size) }`, 1},
		"a function as a value":    {"", `var parse = resource.ParseQuantity`, 1},
		"another name of the same": {"q ", `func f(text string) { q.ParseQuantity(text) }`, 1},
		"another function":         {"", `func f(text string) { budget.ParseQuantity(text); resource.NewQuantity(1, "") }`, 0},
	} {
		s := parse(t, "a/a.go", fmt.Sprintf(header, tc.alias)+tc.code)
		assert.Len(t, unboundedQuantities(s, constantsOf([]*source{s})["a"]), tc.found, name)
	}
}

// unboundedQuantities returns the places where a file parses a text that is not constant as a quantity without a bound.
func unboundedQuantities(s *source, constants map[string]bool) (found []string) {
	name := ""
	for _, i := range s.ast.Imports {
		if i.Path.Value == `"k8s.io/apimachinery/pkg/api/resource"` {
			if name = "resource"; i.Name != nil {
				name = i.Name.Name
			}
		}
	}
	isParser := func(n ast.Node) bool {
		f, ok := n.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		of, ok := f.X.(*ast.Ident)
		return ok && name != "" && of.Name == name && slices.Contains(quantityParsers, f.Sel.Name)
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && isParser(call.Fun) {
			switch text := call.Args[0].(type) {
			case *ast.BasicLit:
				return false
			case *ast.Ident:
				if constants[text.Name] {
					return false
				}
			}
		}
		if isParser(n) {
			found = append(found, fmt.Sprintf("%s: use budget.ParseQuantity: the text is not constant", s.files.Position(n.Pos())))
		}
		return true
	})
	return found
}

// constantsOf returns the names of the constants of each package, by its directory.
func constantsOf(sources []*source) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, s := range sources {
		dir := path.Dir(s.path)
		if all[dir] == nil {
			all[dir] = map[string]bool{}
		}
		for _, d := range s.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, spec := range g.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names { //nolint:forcetypeassert // a constant is nothing else
					all[dir][name.Name] = true
				}
			}
		}
	}
	return all
}
