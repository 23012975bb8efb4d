// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/util/sets"
)

var (
	nameInCode = regexp.MustCompile(`AnnotationPrefix \+ "/([a-z-]+)"`)
	nameInPage = regexp.MustCompile("(?m)^\\| `berth\\.dev/([a-z-]+)`")
)

// A user who finds one of our names on an object looks it up on the page.
func TestEveryLabelAndAnnotationIsDocumented(t *testing.T) {
	inCode := sets.New[string]()
	for _, part := range []string{"apis", "controllers", "internal", "plugins", "services"} {
		inCode.Insert(matchesIn(t, "../../"+part, nameInCode, func(path string) bool {
			return strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go")
		})...)
	}
	assert.Contains(t, inCode, "spot-percent", "the constants are found")
	inPage := sets.New(matches(nameInPage, read(t, "docs/labels.md"))...)
	assert.Equal(t, inCode, inPage, "docs/labels.md and the constants below AnnotationPrefix differ")
}
