// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	nameInCode = regexp.MustCompile(`AnnotationPrefix \+ "/([a-z-]+)"`)
	nameInPage = regexp.MustCompile("(?m)^\\| `berth\\.dev/([a-z-]+)`")
)

// A user who finds one of our names on an object looks it up on the page.
func TestEveryLabelAndAnnotationIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/labels.md")
	require.NoError(t, err)
	documented, inCode := names(nameInPage, page), map[string]bool{}
	for _, part := range []string{"apis", "controllers", "internal", "plugins", "services"} {
		require.NoError(t, filepath.WalkDir("../../"+part, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for name := range names(nameInCode, source) {
				inCode[name] = true
			}
			return err
		}))
	}
	assert.Contains(t, inCode, "spot-percent", "the constants are found")
	assert.Equal(t, inCode, documented, "docs/labels.md and the constants below AnnotationPrefix differ")
}

func names(pattern *regexp.Regexp, text []byte) map[string]bool {
	found := map[string]bool{}
	for _, match := range pattern.FindAllSubmatch(text, -1) {
		found[string(match[1])] = true
	}
	return found
}
