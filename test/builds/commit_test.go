// SPDX-License-Identifier: Apache-2.0

package builds

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheFilesOfAnEarlierCommit(t *testing.T) {
	t.Setenv("BERTH_CACHE", t.TempDir())
	repo := t.TempDir()
	run := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return strings.TrimSpace(string(out))
	}
	run(repo, "init", "--quiet")
	commit := func(text string) string {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(repo, "file"), []byte(text), 0o600))
		run(repo, "add", "file")
		run(repo, "commit", "--quiet", "--message="+text)
		return run(repo, "rev-parse", "HEAD")
	}
	first, second := commit("first"), commit("second")
	require.NoError(t, os.WriteFile(filepath.Join(repo, "file"), []byte("changed"), 0o600))
	before := run(repo, "status", "--porcelain")

	text := func(clone, commit string) string {
		t.Helper()
		dir, err := Files(t.Context(), clone, commit)
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(dir, "file"))
		require.NoError(t, err)
		return string(b)
	}
	assert.Equal(t, "first", text(repo, first))
	assert.Equal(t, before, run(repo, "status", "--porcelain"), "the clone is left alone")

	shallow := filepath.Join(t.TempDir(), "shallow")
	run(repo, "clone", "--quiet", "--depth=1", "file://"+repo, shallow)
	assert.Equal(t, "second", text(shallow, second))
	t.Setenv("BERTH_CACHE", t.TempDir())
	assert.Equal(t, "first", text(shallow, first), "it is fetched")

	_, err := Files(t.Context(), shallow, strings.Repeat("0", 40))
	require.ErrorContains(t, err, "this clone does not have it")
}
