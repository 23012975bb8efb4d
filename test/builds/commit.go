// SPDX-License-Identifier: Apache-2.0

package builds

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"berth.dev/berth/hack/cluster"
)

// Files returns a folder with the files of an earlier commit of the repository, by its full id: BuildScheduler and BuildController
// build what is there. It is made once and kept in the cache. A clone that lacks the commit, a shallow one, fetches it.
func Files(ctx context.Context, repoRoot, commit string) (string, error) {
	cache, err := cluster.CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "commits", commit)
	unlock, err := cluster.Lock(ctx, dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := writeFiles(ctx, repoRoot, commit, dir); err != nil {
		return "", fmt.Errorf("files of commit %s: %w", commit, err)
	}
	return dir, nil
}

func writeFiles(ctx context.Context, repoRoot, commit, dir string) error {
	if git(ctx, repoRoot, nil, "cat-file", "-e", commit+"^{commit}") != nil {
		if err := git(ctx, repoRoot, nil, "fetch", "--quiet", "--no-tags", "--depth=1", "origin", commit); err != nil {
			return fmt.Errorf("this clone does not have it (git fetch --unshallow), and it cannot be fetched: %w", err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	partial, index := dir+".partial", dir+".index"
	for _, old := range []string{partial, index} { // of a process that was ended
		if err := os.RemoveAll(old); err != nil {
			return err
		}
	}
	defer os.Remove(index)
	// An index of its own: neither that of the clone nor its list of work trees changes.
	env := []string{"GIT_INDEX_FILE=" + index}
	if err := git(ctx, repoRoot, env, "read-tree", commit); err != nil {
		return err
	}
	if err := git(ctx, repoRoot, env, "checkout-index", "--all", "--prefix="+partial+"/"); err != nil {
		return err
	}
	return os.Rename(partial, dir)
}

// git runs a git command in a folder. An error has what it printed.
func git(ctx context.Context, dir string, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, out)
	}
	return nil
}
