// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	coreList = regexp.MustCompile(`(?s)Core: \[\]string\{([^}]*)\}`)
	quoted   = regexp.MustCompile(`"(\w+)"`)
	required = regexp.MustCompile(`(?m)^\t([^\s]+) (v[^\s]+)(?: // indirect)?$`)
)

// A test that is renamed stays in make test: -run would find none of its old name, and say nothing.
func TestTheCoreOfASuiteNamesItsTests(t *testing.T) {
	suites := 0
	files, err := filepath.Glob("../../test/integration/*/*/*_test.go")
	require.NoError(t, err)
	for _, file := range files {
		names := coreList.FindStringSubmatch(read(t, strings.TrimPrefix(file, "../../")))
		if names == nil {
			continue
		}
		suites++
		tests := testsOf(t, filepath.Dir(file))
		for _, name := range quoted.FindAllStringSubmatch(names[1], -1) {
			assert.Contains(t, tests, name[1], file)
		}
	}
	assert.GreaterOrEqual(t, suites, 5)
}

// A library that the local control plane or the generators have in another version than Berth is compiled twice on a new machine, and so is
// all that imports it.
func TestModulesThatShareTheBuildCacheShareVersions(t *testing.T) {
	versions := map[string]string{}
	for _, m := range requirements(t, "go.mod") {
		versions[m[1]] = m[2]
	}
	require.Greater(t, len(versions), 100)
	for _, module := range []string{"hack/cluster/controlplane", "hack/tools", "hack/tools/reference"} {
		for _, m := range requirements(t, module+"/go.mod") {
			if ours := versions[m[1]]; ours != "" {
				assert.Equal(t, ours, m[2], "%s/go.mod: %s", module, m[1])
			}
		}
	}
}

func requirements(t *testing.T, file string) [][]string {
	t.Helper()
	text, _, _ := strings.Cut(read(t, file), "\nreplace ")
	return required.FindAllStringSubmatch(text, -1)
}
