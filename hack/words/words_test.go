// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// plant writes a repository with one file of each kind.
func plant(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for _, folder := range append(programs, pages...) {
		require.NoError(t, os.MkdirAll(filepath.Join(root, folder), 0o750))
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return root
}

func TestAPlantedWordIsFound(t *testing.T) {
	const message = "package p\n\nimport \"fmt\"\n\nfunc f() error { return fmt.Errorf(\"%s is started anew\", \"a pod\") }\n"
	for name, tc := range map[string]struct {
		file, text, want string
	}{
		"a message of a program": {"controllers/p/p.go", message, `controllers/p/p.go:5: "anew": write again, recreated`},
		"a page":                 {"docs/a.md", "# A\n\nA pod waits For ever.\n", `docs/a.md:3: "For ever": write without limit`},
		"a comment of a sample":  {"manifests/samples/a.yaml", "# Nobody reads it.\na: b\n", `manifests/samples/a.yaml:1: "Nobody": write no one, a user, unauthenticated`},
		"a reason": {
			"controllers/p/reasons.go", "package p\n\nconst Reason = \"NoRoomLeft\"\n", `controllers/p/reasons.go:3: "Room": write capacity`,
		},
		"a metric": {"internal/p/m.go", "package p\n\nvar m = \"berth_mix_look_duration\"\n", `internal/p/m.go:3: "look": write reconcile`},
		"a template of the chart": {
			"manifests/chart/templates/_helpers.tpl", "# What mends it.\n", `manifests/chart/templates/_helpers.tpl:1: "mends": write repair, restore, reconcile`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := check(plant(t, map[string]string{tc.file: tc.text}))
			require.NoError(t, err)
			assert.Equal(t, []string{tc.want}, found)
		})
	}
	clean, err := check(plant(t, map[string]string{
		"docs/a.md": "A recommendation and a commended amendment.\n", "controllers/p/p_test.go": message,
		"controllers/p/name.go": "package p\n\nimport _ \"p/room\"\n\nconst anew = \"broom-vainly\"\n", "docs/measurements/report.md": "It goes by the clock.\n",
	}))
	require.NoError(t, err)
	assert.Empty(t, clean, "whole words, in texts")
}

func TestAPersonalCommentIsFound(t *testing.T) {
	const comments = "package p\n\n// says returns what a user asks.\n// It knows all.\nconst says = \"it tells\" // it is told\n"
	found, err := checkComments(plant(t, map[string]string{"test/p/p_test.go": comments}))
	require.NoError(t, err)
	assert.Equal(t, []string{
		`test/p/p_test.go:4: "knows": write what the program does: reports, has, reads, requests, requires`,
		`test/p/p_test.go:5: "is told": write what the program does: reports, has, reads, requests, requires`,
	}, found, "neither the name, nor a user, nor a string")

	many := "package p\n" + strings.Repeat("\n// It says.\n", commentsLimit)
	found, err = checkComments(plant(t, map[string]string{"plugins/p/p.go": many}))
	require.NoError(t, err)
	assert.Empty(t, found)
	found, err = checkComments(plant(t, map[string]string{"plugins/p/p.go": many, "scheduler/p.go": comments}))
	require.NoError(t, err)
	assert.Len(t, found, commentsLimit+3, "all of them, and their number")
}

func TestNoCommentIsPersonal(t *testing.T) {
	found, err := checkComments("../..")
	require.NoError(t, err)
	assert.Empty(t, found)
}

func TestNoTextHasALostWord(t *testing.T) {
	found, err := check("../..")
	require.NoError(t, err)
	assert.Empty(t, found)
}
