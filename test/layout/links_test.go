// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	linked  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	scheme  = regexp.MustCompile(`^[a-z]+:`)
	inHref  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// A reader who follows a link of a page reaches a file and a heading.
func TestLinksOfPagesLeadToFilesAndHeadings(t *testing.T) {
	count, headings := 0, map[string][]string{}
	for _, page := range pages(t) {
		for _, to := range matches(linked, fenced.ReplaceAllString(read(t, page), "")) {
			if scheme.MatchString(to) {
				continue
			}
			count++
			assert.NoError(t, follow(headings, page, to), page)
		}
	}
	assert.Greater(t, count, 1000)
	assert.Error(t, follow(headings, "docs/faq.md", "monitoring.md#no-such-heading"), "it can fail")
	assert.Error(t, follow(headings, "docs/faq.md", "nowhere.md"), "it can fail")
}

// pages returns the pages of the repository, without what is built in it.
func pages(t *testing.T) (found []string) {
	t.Helper()
	for _, part := range []string{"*.md", "apis", "docs", "manifests", "hack", "test"} {
		roots, err := filepath.Glob("../../" + part)
		require.NoError(t, err)
		for _, root := range roots {
			require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() && strings.HasSuffix(path, ".md") {
					found = append(found, filepath.ToSlash(strings.TrimPrefix(filepath.Clean(path), "../../")))
				}
				return err
			}))
		}
	}
	return found
}

// follow returns an error if a link of a page leads nowhere. It keeps the headings of the pages that it has read.
func follow(headings map[string][]string, page, to string) error {
	path, anchor, _ := strings.Cut(to, "#")
	if path == "" {
		path = page
	} else {
		path = filepath.Join(filepath.Dir(page), path)
	}
	file := filepath.Join("../..", path)
	if anchor == "" || filepath.Ext(path) != ".md" {
		_, err := os.Stat(file)
		return err
	}
	if headings[path] == nil {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		headings[path] = anchors(string(text))
	}
	if !slices.Contains(headings[path], anchor) {
		return fmt.Errorf("%s has no heading #%s", path, anchor)
	}
	return nil
}

// anchors returns the names that GitHub gives to the headings of a page.
func anchors(text string) (names []string) {
	seen := map[string]int{}
	for _, h := range matches(heading, fenced.ReplaceAllString(text, "")) {
		h = noSlug.ReplaceAllString(inHref.ReplaceAllString(h, "$1"), "")
		name := strings.ReplaceAll(strings.ToLower(h), " ", "-")
		if n := seen[name]; n > 0 {
			names = append(names, fmt.Sprintf("%s-%d", name, n))
		} else {
			names = append(names, name)
		}
		seen[name]++
	}
	return names
}
