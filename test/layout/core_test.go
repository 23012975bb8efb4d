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
