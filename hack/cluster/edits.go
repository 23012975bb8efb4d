// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// edit replaces a text in a file of a module, for one build only.
type edit struct{ module, file, old, new string }

// editedModules copies the modules of edits into a directory, edits the copies and returns the flag of `go build` that uses
// them; the module cache stays as it is. A text that is not there is an error: with another version of the module the edit
// may not be needed, or not be enough.
func editedModules(ctx context.Context, nested, dir string, edits []edit) (string, error) {
	copies := map[string]string{}
	for _, e := range edits {
		if copies[e.module] == "" {
			original, err := moduleDir(ctx, nested, e.module)
			if err != nil {
				return "", err
			}
			copies[e.module] = filepath.Join(dir, fmt.Sprintf("module-%d", len(copies)))
			if err := os.CopyFS(copies[e.module], os.DirFS(original)); err != nil {
				return "", err
			}
		}
		if err := e.apply(copies[e.module]); err != nil {
			return "", err
		}
	}
	return replacedIn(nested, dir, copies)
}

// replacedIn writes the go.mod file of a nested module into a directory, with copies in place of modules, and returns the flag
// of `go build` that uses it.
func replacedIn(nested, dir string, copies map[string]string) (string, error) {
	modfile, err := os.ReadFile(filepath.Join(nested, "go.mod"))
	if err != nil {
		return "", err
	}
	for _, module := range slices.Sorted(maps.Keys(copies)) {
		modfile = fmt.Appendf(modfile, "\nreplace %s => %s\n", module, copies[module])
	}
	gosum, err := os.ReadFile(filepath.Join(nested, "go.sum"))
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), gosum, 0o600); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "go.mod")
	return "-modfile=" + path, os.WriteFile(path, modfile, 0o600)
}

func (e edit) apply(root string) error {
	path := filepath.Join(root, e.file)
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.Contains(string(b), e.old) {
		return fmt.Errorf("edit %s of %s: %q is not in it", e.file, e.module, e.old)
	}
	return os.WriteFile(path, []byte(strings.ReplaceAll(string(b), e.old, e.new)), 0o600)
}

// moduleDir returns where the source of a module is that a nested module requires. It is downloaded if need be.
func moduleDir(ctx context.Context, nested, module string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir, cmd.Stderr = nested, &stderr
	cmd.Env = append(os.Environ(), "GOWORK=off", newerGo)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("find module %s: %w\n%s%s", module, err, out, stderr.String())
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(out, &found); err != nil {
		return "", fmt.Errorf("find module %s: %w", module, err)
	}
	return found.Dir, nil
}
