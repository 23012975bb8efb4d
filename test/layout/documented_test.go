// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"

	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/suggest"
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

// A user looks up the reason of a status on the first page, and the operator finds on the second one what to do about it.
func TestEveryReasonOfTheRebalancerIsDocumented(t *testing.T) {
	for _, page := range []string{"docs/rebalancing.md", "docs/monitoring.md"} {
		var rows strings.Builder
		for line := range strings.Lines(read(t, page)) {
			if strings.HasPrefix(line, "| `") {
				rows.WriteString(strings.SplitN(line, "|", 3)[1])
			}
		}
		reasons := rebalance.Reasons()
		require.Greater(t, len(reasons), 40)
		for _, r := range reasons {
			if page == "docs/rebalancing.md" && r.Meaning != "" || page == "docs/monitoring.md" && r.Action != "" {
				assert.Contains(t, rows.String(), "`"+r.Name+"`", "%s has no row for it: run make generate", page)
			}
		}
		assert.NotContains(t, rows.String(), "`NoSuchReason`", "it can fail")
	}
}

// A user looks up what limits or blocks a mix.
func TestEveryReasonOfASuggestionIsDocumented(t *testing.T) {
	page := read(t, "docs/suggest.md")
	require.Greater(t, len(suggest.Reasons()), 30)
	for _, r := range suggest.Reasons() {
		assert.Contains(t, page, "\n| `"+r.Name+"` | ", "run make generate")
	}
}
