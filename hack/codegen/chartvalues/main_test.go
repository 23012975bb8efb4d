// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheReadmeHasEveryValueOfTheChart(t *testing.T) {
	const chart = "../../../manifests/chart/"
	values, err := os.ReadFile(chart + "values.yaml")
	require.NoError(t, err)
	readme, err := os.ReadFile(chart + "README.md")
	require.NoError(t, err)
	want, err := page(values)
	require.NoError(t, err)
	assert.Equal(t, want, string(readme), "run make generate")
	assert.Contains(t, want, "| `scheduler.replicas` | `2` |")
}

func TestAValueTakesTheCommentOfTheProgramAbove(t *testing.T) {
	text, err := page([]byte("# All values.\n\n# One | two.\nscheduler:\n  # Copies.\n  replicas: 2\n  # Sizes,\n  # of all.\n  sizes: {cpu: 1}\n" +
		"controller:\n  replicas: 3\n# Names.\nnames: []\n# Text.\ntag: \"\"\n"))
	require.NoError(t, err)
	_, rows, _ := strings.Cut(text, "|---|---|---|\n")
	assert.Equal(t, "| **scheduler** | | One \\| two. |\n| `scheduler.replicas` | `2` | Copies. |\n| `scheduler.sizes` | `{cpu: 1}` | Sizes, of all. |\n"+
		"| `controller.replicas` | `3` | Copies. |\n| `names` | `[]` | Names. |\n| `tag` | `\"\"` | Text. |\n", rows)
}

func TestAValueWithoutACommentIsRefused(t *testing.T) {
	_, err := page([]byte("scheduler:\n  # Copies.\n  replicas: 2\nother:\n  replicas: 2\n"))
	assert.ErrorContains(t, err, "other.replicas: no comment")
	for _, values := range []string{"", "[]", "a: ["} {
		_, err := page([]byte(values))
		assert.Error(t, err, values)
	}
}
