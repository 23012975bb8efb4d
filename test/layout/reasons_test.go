// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A verdict of the rebalancer is explained on the page that users read: a reason that the table does not have is no help.
func TestEveryReasonOfTheRebalancerIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/rebalancing.md")
	require.NoError(t, err)
	var rows strings.Builder
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `") {
			rows.WriteString(strings.SplitN(line, "|", 3)[1])
		}
	}
	reasons := slices.Concat(reasonsOf(t, "../../internal/mix/rebalance"), reasonsOf(t, "../../controllers/mix/rebalance"))
	require.Greater(t, len(reasons), 30)
	for _, r := range reasons {
		if r != "Move" { // nothing is in the way
			assert.Contains(t, rows.String(), "`"+r+"`", "docs/rebalancing.md has no row for it")
		}
	}
	assert.NotContains(t, rows.String(), "`NoSuchReason`", "it can fail")
}

// reasonsOf returns the values of the constants Reason… of a package.
func reasonsOf(t *testing.T, dir string) (values []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") || len(spec.Values) == 0 {
				return true
			}
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				value, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				values = append(values, value)
			}
			return true
		})
	}
	return values
}
