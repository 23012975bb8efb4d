// SPDX-License-Identifier: Apache-2.0

package builds

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"berth.dev/berth/hack/cluster"
)

// Checker checks that mutants compile. It checks their types, with what the go command compiled of the packages that they import: that
// takes a moment for each mutant, where a build takes seconds.
type Checker struct {
	root     string
	packages map[string]listed // by directory
	fset     *token.FileSet
	imports  types.Importer
}

// listed is what go list prints of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// NewChecker has the go command compile the packages that mutants of a repository change, and what these import.
func NewChecker(ctx context.Context, repoRoot string, mutants ...[]Replacement) (*Checker, error) {
	root, err := filepath.Abs(repoRoot)
	if err != nil {
		return nil, err
	}
	args := slices.Concat([]string{"list"}, cluster.BuildArgs[1:], []string{"-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"})
	for _, r := range slices.Concat(mutants...) {
		args = append(args, filepath.Dir(inRoot(root, r.File)))
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		if failed, is := errors.AsType[*exec.ExitError](err); is {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		return nil, fmt.Errorf("list the packages of mutants: %w", err)
	}
	c := &Checker{root: root, packages: map[string]listed{}, fset: token.NewFileSet()}
	exports := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p listed
		if err := d.Decode(&p); err != nil {
			return nil, fmt.Errorf("list the packages of mutants: %w", err)
		}
		c.packages[p.Dir], exports[p.ImportPath] = p, p.Export
	}
	c.imports = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) {
		file := exports[path]
		if file == "" {
			return nil, fmt.Errorf("no package that mutants change imports %s", path)
		}
		return os.Open(file)
	})
	return c, nil
}

// Check returns why a mutant does not compile. A package of it that changes what another one uses is checked with that one as it is.
func (c *Checker) Check(mutant ...Replacement) error {
	texts, err := replaced(c.root, mutant)
	if err != nil {
		return err
	}
	checked := map[string]bool{}
	for file := range texts {
		dir := filepath.Dir(inRoot(c.root, file))
		if !checked[dir] {
			checked[dir] = true
			if err := c.check(dir, texts); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Checker) check(dir string, texts map[string]string) error {
	p, is := c.packages[dir]
	if !is {
		return fmt.Errorf("no package in %s", dir)
	}
	changed := map[string]any{}
	for file, text := range texts {
		changed[inRoot(c.root, file)] = text
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		path := filepath.Join(dir, name)
		file, err := parser.ParseFile(c.fset, path, changed[path], parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	config := types.Config{Importer: c.imports}
	_, err := config.Check(p.ImportPath, c.fset, files, nil)
	return err
}
