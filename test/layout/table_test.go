// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/importtable"
)

// unallowed returns the imports between parts that the table does not have, and the rows of parts that do not exist.
func unallowed(all []importtable.Part, allowed map[string][]string) (problems []string) {
	exists := map[string]bool{}
	for _, r := range all {
		exists[r.Name] = true
		list, has := allowed[r.Name]
		if !has {
			problems = append(problems, r.Name+" is not in the table")
		}
		for _, to := range r.Imports {
			if !slices.Contains(list, to) {
				problems = append(problems, r.Name+" imports "+to)
			}
		}
	}
	for name := range allowed {
		if !exists[name] {
			problems = append(problems, name+" is in the table and does not exist")
		}
	}
	slices.Sort(problems)
	return problems
}

func TestTheTableOfImportsAllowsEveryImport(t *testing.T) {
	allowed, err := importtable.Allowed(read(t, importtable.Page))
	require.NoError(t, err)
	all, err := importtable.Read("../..")
	require.NoError(t, err)
	require.Greater(t, len(all), 15)
	assert.Empty(t, unallowed(all, allowed), "run make generate, and explain the new arrow in the commit")
	assert.Equal(t, []string{"controllers/mix imports services/server", "internal/new is not in the table", "plugins/gone is in the table and does not exist"},
		unallowed([]importtable.Part{{Name: "controllers/mix", Imports: []string{"apis", "services/server"}}, {Name: "internal/new"}},
			map[string][]string{"controllers/mix": {"apis"}, "plugins/gone": nil}), "it can fail")
}

// internal is drawn on one sheet: few parts, few arrows, none of them in a circle.
func TestInternalHasFewPartsAndNoCircle(t *testing.T) {
	all, err := importtable.Read("../..")
	require.NoError(t, err)
	imports, arrows := map[string][]string{}, 0
	for _, r := range all {
		if strings.HasPrefix(r.Name, "internal/") {
			imports[r.Name] = slices.DeleteFunc(slices.Clone(r.Imports), func(to string) bool { return !strings.HasPrefix(to, "internal/") })
			arrows += len(imports[r.Name])
		}
	}
	assert.LessOrEqual(t, len(imports), 12, "parts")
	assert.LessOrEqual(t, arrows, 32, "arrows, of which 8 lead to budget, which imports nothing")
	assert.Empty(t, circle(imports))
	assert.NotEmpty(t, circle(map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": nil}), "it can fail")
}

// circle returns the parts that are left when those without imports are taken away again and again.
func circle(imports map[string][]string) (left []string) {
	gone := map[string]bool{}
	for range imports {
		for name, list := range imports {
			if !slices.ContainsFunc(list, func(to string) bool { return !gone[to] }) {
				gone[name] = true
			}
		}
	}
	for name := range imports {
		if !gone[name] {
			left = append(left, name)
		}
	}
	return left
}

// Who reads from a page of the console down to a decision opens no more packages than these.
func TestTheConsoleImportsInShortChains(t *testing.T) {
	packages, err := importtable.Packages("../..")
	require.NoError(t, err)
	imports := map[string][]string{}
	for _, p := range packages {
		imports[p.ImportPath] = p.Imports
	}
	longest := chain(imports, module+"cmd/berth-console", map[string][]string{})
	assert.Greater(t, len(longest), 4, "it is found")
	assert.LessOrEqual(t, len(longest), 9, strings.Join(longest, "\n"))
}

// chain is the longest chain of imports that begins with a package. found are the chains of packages that are known.
func chain(imports map[string][]string, pkg string, found map[string][]string) []string {
	if c, known := found[pkg]; known {
		return c
	}
	var longest []string
	for _, to := range imports[pkg] {
		if c := chain(imports, to, found); imports[to] != nil && len(c) > len(longest) {
			longest = c
		}
	}
	found[pkg] = append([]string{pkg}, longest...)
	return found[pkg]
}
