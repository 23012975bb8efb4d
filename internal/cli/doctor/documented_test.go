// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
)

var (
	row       = regexp.MustCompile(`(?m)^    (OK|WARN|FAIL) +(\S+(?: \S+)*)  +(.+)$`)
	verb      = regexp.MustCompile(`%[svdqt]`)
	letters   = regexp.MustCompile(`[a-z]`)
	ofVersion = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)
)

// A user who compares what doctor prints with the page finds the same checks, messages and fixes.
func TestTheOutputsOfThePageAreWhatDoctorPrints(t *testing.T) {
	text, err := os.ReadFile("../../../docs/kubectl-berth.md")
	require.NoError(t, err)
	_, page, found := strings.Cut(string(text), "\n## doctor\n")
	require.True(t, found)
	page, _, _ = strings.Cut(page, "\n## ")
	checks, formats, literals := printed(t)
	fixes := literals.Union(goldenFixes(t))

	rows := row.FindAllStringSubmatch(page, -1)
	require.Greater(t, len(rows), 40)
	shown := sets.New[string]()
	for _, r := range rows {
		message, fix, has := strings.Cut(r[3], "; fix: ")
		shown.Insert(r[2])
		assert.Equal(t, r[1] != string(OK), has, "a fix: %s", r[0])
		assert.True(t, ofVersion.MatchString(message) || matchesAny(formats, message), "no message of doctor is %q", message)
		assert.True(t, !has || fixes.Has(fix), "no fix of doctor is %q", fix)
	}
	for check := range checks {
		assert.True(t, shown.Has(check) || strings.Contains(page, "`"+check+"`"), "the page has no row and no `%s`", check)
	}
	for _, r := range resources {
		assert.True(t, r.feature != "" || shown.Has(r.kind+" resource"), r.kind)
	}
	assert.False(t, matchesAny(formats, "all is well"), "it can fail")
}

// printed returns the names of the checks, the formats of their messages and all strings of the package.
func printed(t *testing.T) (checks sets.Set[string], formats []*regexp.Regexp, literals sets.Set[string]) {
	t.Helper()
	checks, literals = sets.New[string](), sets.New[string]()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if n.Names[0].Name == "check" && len(n.Values) == 1 {
					checks.Insert(unquoted(n.Values[0]))
				}
			case *ast.BasicLit:
				literals.Insert(unquoted(n))
			}
			return true
		})
	}
	require.Greater(t, checks.Len(), 10)
	for text := range literals {
		// A format without words matches everything.
		if len(letters.FindAllString(verb.ReplaceAllString(text, ""), -1)) < 8 {
			continue
		}
		pattern := verb.ReplaceAllString(regexp.QuoteMeta(text), ".+")
		formats = append(formats, regexp.MustCompile(`^`+pattern+`( \(\d+ pods?\))?$`))
	}
	return checks, formats, literals
}

func unquoted(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		if text, err := strconv.Unquote(l.Value); err == nil {
			return text
		}
	}
	return ""
}

// goldenFixes are the fixes that have been printed, of which some are put together.
func goldenFixes(t *testing.T) sets.Set[string] {
	t.Helper()
	fixes := sets.New[string]()
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if _, fix, has := strings.Cut(strings.TrimSpace(line), "; fix: "); has {
				fixes.Insert(fix)
			}
		}
	}
	return fixes
}

func matchesAny(patterns []*regexp.Regexp, text string) bool {
	for _, p := range patterns {
		if p.MatchString(text) {
			return true
		}
	}
	return false
}
