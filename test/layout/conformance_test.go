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
	target   = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	function = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w*)\(`)
	named    = regexp.MustCompile(`\b((?:Test|Fuzz)[A-Z]\w*)(…?)`)
)

// Each row of the page names make targets that exist, and tests that exist.
func TestEveryPromiseNamesATestAndItsTarget(t *testing.T) {
	targets := []string{"by hand", "-"} // -: the row has why there is none
	targets = append(targets, matches(target, read(t, "Makefile"))...)
	tests := testsOf(t, "../..")
	rows := 0
	page := read(t, "docs/conformance.md")
	for fault := range 30 {
		assert.Contains(t, page, fmt.Sprintf("\n| F%d | ", fault+1))
	}
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), `\|`, ""), "|")
		if len(cells) < 5 || strings.Contains(line, "---|") || strings.TrimSpace(cells[len(cells)-2]) == "state" {
			continue
		}
		rows++
		for name := range strings.SplitSeq(cells[len(cells)-3], ",") {
			assert.Contains(t, targets, strings.TrimSpace(name), "make target of %s", line)
		}
		for _, m := range named.FindAllStringSubmatch(cells[len(cells)-4], -1) {
			assert.True(t, slices.ContainsFunc(tests, func(test string) bool { return test == m[1] || m[2] != "" && strings.HasPrefix(test, m[1]) }),
				"no test %s%s of %s", m[1], m[2], line)
		}
	}
	assert.Greater(t, rows, 200)
}

var (
	suite = regexp.MustCompile("`([a-z]+/[a-z]+)`")
	link  = regexp.MustCompile(`\]\([a-z-]*(\.md)?(#[a-z-]+)?\)`)
)

// Each property of the scheduling domain names tests that exist, a suite, or the page that describes it.
func TestEveryPropertyOfTheSchedulingDomainHasATestOrAPage(t *testing.T) {
	tests, rows := testsOf(t, "../.."), 0
	for line := range strings.Lines(read(t, "docs/scheduling-domain.md")) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 5 || strings.Contains(line, "---|") || strings.TrimSpace(cells[1]) == "property" {
			continue
		}
		rows++
		evidence := cells[3]
		for _, name := range matches(named, evidence) {
			assert.Contains(t, tests, name, line)
		}
		for _, name := range matches(suite, evidence) {
			if name != "internal/policies" && name != "plugins/schedulingpolicy" {
				assert.DirExists(t, "../integration/"+name, line)
			}
		}
		if strings.TrimSpace(cells[2]) != "out of scope" {
			assert.True(t, named.MatchString(evidence) || suite.MatchString(evidence) || link.MatchString(evidence) ||
				strings.Contains(evidence, "internal/policies/decision"), "no test and no page: %s", line)
		}
	}
	assert.Greater(t, rows, 35)
}

// testsOf returns the names of all tests of a repository.
func testsOf(t *testing.T, root string) []string {
	t.Helper()
	return matchesIn(t, root, function, func(path string) bool { return strings.HasSuffix(path, "_test.go") })
}

// matchesIn returns the first group of each match of a pattern in the files below a folder that keep accepts.
func matchesIn(t *testing.T, root string, pattern *regexp.Regexp, keep func(path string) bool) (found []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !keep(path) {
			return err
		}
		b, err := os.ReadFile(path)
		found = append(found, matches(pattern, string(b))...)
		return err
	}))
	return found
}

// read returns a file of the repository.
func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../..", path))
	require.NoError(t, err)
	return string(b)
}

func matches(pattern *regexp.Regexp, text string) (found []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}
