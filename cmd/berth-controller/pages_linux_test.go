// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPagesOfTheFileAreReleasedAndReadAgain(t *testing.T) {
	before := mappedFile(t)
	releasePages()
	after := mappedFile(t)
	t.Logf("%d kB of files in memory before, %d after", before, after)
	assert.LessOrEqual(t, after, before)
}

// mappedFile returns the pages of files that are in memory, in kB.
func mappedFile(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	found := regexp.MustCompile(`RssFile:\s*(\d+) kB`).FindSubmatch(status)
	require.NotNil(t, found)
	kB, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	return kB
}

func TestOnlyPagesThatCannotBeWrittenAreReleased(t *testing.T) {
	for line, want := range map[string]bool{
		"00400000-01bba000 r-xp 00000000 fe:00 10666930                           /bin/a": true,
		"01bba000-03735000 r--p 017ba000 fe:00 10666930                           /bin/a": true,
		"03735000-038f0000 rw-p 03335000 fe:00 10666930                           /bin/a": false,
		"03735000-038f0000 r--p 03335000 fe:00 10666930                           /bin/b": false,
		"c000000000-c004000000 rw-p 00000000 00:00 0":                                     false,
		"": false,
		"x-y r-xp 00000000 fe:00 10666930 /bin/a": false,
	} {
		begin, end, ok := readOnlyPages(line, "/bin/a")
		assert.Equal(t, want, ok, line)
		assert.True(t, !ok || begin < end, line)
	}
}
