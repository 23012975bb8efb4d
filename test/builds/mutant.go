// SPDX-License-Identifier: Apache-2.0

// Package builds builds what only tests run: mutants of programs, and programs of earlier commits.
package builds

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth.dev/berth/hack/cluster"
)

// Replacement replaces a text in a file of the repository, or in any file by its absolute path. The file must have the text once.
type Replacement struct{ File, Old, New string }

// Mutant builds a program of Berth, such as berth-scheduler, with replacements into the cache, and returns its path. The tree stays as
// it is. A text that is not there, or there more than once, is an error: the mutant would be another one than its test describes.
func Mutant(
	ctx context.Context, repoRoot string, out io.Writer, program string, replacements ...Replacement,
) (path string, err error) {
	err = withMutant(ctx, repoRoot, out, program, replacements, func(dir string) []string {
		path = filepath.Join(dir, program)
		return []string{"-o", path, "./cmd/" + program}
	})
	return path, err
}

// CompileMutant compiles the packages of the replacements, which takes seconds where Mutant takes minutes.
func CompileMutant(ctx context.Context, repoRoot string, out io.Writer, name string, replacements ...Replacement) error {
	return withMutant(ctx, repoRoot, out, name, replacements, func(string) []string {
		var packages []string
		for _, r := range replacements {
			packages = append(packages, "./"+filepath.Dir(r.File))
		}
		slices.Sort(packages)
		return append([]string{"-o", os.DevNull}, slices.Compact(packages)...)
	})
}

// withMutant runs go build with replacements, and with arguments that may name files in the directory of the mutant.
func withMutant(
	ctx context.Context, repoRoot string, out io.Writer, name string, replacements []Replacement, args func(dir string) []string,
) error {
	root, err := filepath.Abs(repoRoot)
	if err != nil {
		return err
	}
	cache, err := cluster.CacheDir()
	if err != nil {
		return err
	}
	dir := filepath.Join(cache, "mutants", cluster.ShortHash(fmt.Sprintf("%s %s %q", root, name, replacements)))
	unlock, err := cluster.Lock(ctx, dir)
	if err != nil {
		return err
	}
	defer unlock()
	overlay, err := writeOverlay(root, dir, replacements)
	if err != nil {
		return fmt.Errorf("build a mutant of %s: %w", name, err)
	}
	return cluster.GoCommand(ctx, out, "mutant of "+name, root, []string{"CGO_ENABLED=0"},
		slices.Concat(cluster.BuildArgs, []string{"-overlay=" + overlay}, args(dir))...)
}

// writeOverlay writes the changed files into a directory, and returns the file for go build -overlay.
func writeOverlay(root, dir string, replacements []Replacement) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	texts, err := replaced(root, replacements)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, text := range texts {
		changed := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[inRoot(root, file)] = changed
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, b, 0o600)
}

// replaced returns the texts of the files of replacements after these, by the files' names.
func replaced(root string, replacements []Replacement) (map[string]string, error) {
	texts := map[string]string{}
	for _, r := range replacements {
		if texts[r.File] == "" {
			b, err := os.ReadFile(inRoot(root, r.File))
			if err != nil {
				return nil, err
			}
			texts[r.File] = string(b)
		}
		if n := strings.Count(texts[r.File], r.Old); n != 1 {
			return nil, fmt.Errorf("%s has %q %d times, not once", r.File, r.Old, n)
		}
		texts[r.File] = strings.Replace(texts[r.File], r.Old, r.New, 1)
	}
	return texts, nil
}

func inRoot(root, file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(root, file)
}
