// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

// output is what a page shows below a command with a prompt.
type output struct {
	page, command string
	lines         []string
}

// outputs returns what the pages have below commands that begin with a text.
func outputs(t *testing.T, command string) (all []output) {
	t.Helper()
	for _, page := range pages(t) {
		open := false
		for line := range strings.Lines(read(t, page)) {
			text, indented := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
			prompt, isPrompt := strings.CutPrefix(text, "$ ")
			switch {
			case indented && isPrompt:
				if open = strings.HasPrefix(prompt, command); open {
					all = append(all, output{page: page, command: prompt})
				}
			case !indented && strings.TrimSpace(line) != "":
				open = false
			case indented && open:
				all[len(all)-1].lines = append(all[len(all)-1].lines, text)
			}
		}
	}
	require.NotEmpty(t, all, command)
	return all
}

var (
	// columns matches the head of a table.
	columns = regexp.MustCompile(`^ *[A-Z][A-Z%/-]+(?: +[A-Z][A-Z%/-]*)+$`)
	// field matches a line such as "Node:   a".
	field     = regexp.MustCompile(`^ *([A-Z][A-Za-z -]*): {2,}`)
	described = regexp.MustCompile(`\.Add\("([A-Z][^"]*)"`)
)

// The golden files are what the plugin prints: a column or a field of a page that none has was renamed or removed.
func TestOutputsOfPagesHaveTheColumnsOfThePlugin(t *testing.T) {
	tables := sets.New[string]()
	require.NoError(t, filepath.WalkDir("../../internal/cli", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".txt" {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			tables.Insert(strings.Join(strings.Fields(line), " "))
		}
		return err
	}))
	fields := sets.New[string]()
	for _, root := range []string{"../../internal/cli", "../../internal/mix/overview"} {
		fields.Insert(matchesIn(t, root, described, func(path string) bool {
			return strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go")
		})...)
	}
	heads := 0
	for _, o := range outputs(t, "kubectl berth ") {
		for _, line := range o.lines {
			if columns.MatchString(line) {
				heads++
				assert.True(t, tables.Has(strings.Join(strings.Fields(line), " ")), "%s: %s prints no columns %q", o.page, o.command, line)
			}
			if m := field.FindStringSubmatch(line); m != nil {
				assert.True(t, fields.Has(m[1]), "%s: %s prints no field %q", o.page, o.command, m[1])
			}
		}
	}
	assert.Greater(t, heads, 20, "the tables are found")
}

// The API server prints the columns of the CustomResourceDefinition.
func TestOutputsOfPagesHaveTheColumnsOfTheKind(t *testing.T) {
	type crd struct {
		Spec struct {
			Names struct {
				Plural, Singular string
				ShortNames       []string
			}
			Versions []struct {
				AdditionalPrinterColumns []struct {
					Name     string
					Priority int
				}
			}
		}
	}
	heads := map[string]string{}
	files, err := filepath.Glob("../../manifests/crds/berth.dev_*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		var c crd
		require.NoError(t, yaml.Unmarshal([]byte(read(t, strings.TrimPrefix(file, "../../"))), &c))
		head := []string{"NAME"}
		for _, column := range c.Spec.Versions[0].AdditionalPrinterColumns {
			if column.Priority == 0 {
				head = append(head, strings.ToUpper(column.Name))
			}
		}
		for _, name := range append(c.Spec.Names.ShortNames, c.Spec.Names.Plural, c.Spec.Names.Singular) {
			heads[name] = strings.Join(head, " ")
		}
	}
	compared := 0
	for _, o := range outputs(t, "kubectl get ") {
		kind := strings.Fields(o.command)[2]
		if want := heads[kind]; want != "" && len(o.lines) > 0 {
			compared++
			assert.Equal(t, want, strings.Join(strings.Fields(o.lines[0]), " "), fmt.Sprintf("%s: %s", o.page, o.command))
		}
	}
	assert.Greater(t, compared, 2)
}
