// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"

	"berth.dev/berth/hack/codegen/metricsource"
)

var (
	nameInCode = regexp.MustCompile(`AnnotationPrefix \+ "/([a-z-]+)"`)
	nameInPage = regexp.MustCompile("(?m)^\\| `berth\\.dev/([a-z-]+)`")
)

// A user who finds one of our names on an object looks it up on the page.
func TestEveryLabelAndAnnotationIsDocumented(t *testing.T) {
	inCode := sets.New[string]()
	for _, part := range []string{"apis", "controllers", "internal", "plugins", "scheduler", "services"} {
		inCode.Insert(matchesIn(t, "../../"+part, nameInCode, func(path string) bool {
			return strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go")
		})...)
	}
	assert.Contains(t, inCode, "spot-percent", "the constants are found")
	inPage := sets.New(matches(nameInPage, read(t, "docs/labels.md"))...)
	assert.Equal(t, inCode, inPage, "docs/labels.md and the constants below AnnotationPrefix differ")
}

// A verdict of the rebalancer is explained on the page that users read: a reason that the table does not have is no help.
func TestEveryReasonOfTheRebalancerIsDocumented(t *testing.T) {
	var rows strings.Builder
	for line := range strings.Lines(read(t, "docs/rebalancing.md")) {
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

// reasonsOf are the values of a package's constants whose names begin with Reason.
func reasonsOf(t *testing.T, dir string) (values []string) {
	t.Helper()
	s, err := metricsource.Read(dir)
	require.NoError(t, err)
	for name, value := range s.Constants {
		if strings.HasPrefix(name, "Reason") {
			values = append(values, value)
		}
	}
	return values
}
