// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A program that uses controller-runtime and sets no logger prints a stack of thirty lines after thirty seconds, whatever it does.
func TestEveryProgramSetsTheLoggerOfLibraries(t *testing.T) {
	const library = "sigs.k8s.io/controller-runtime/pkg/log"
	const format = `{{if not .Standard}}{{.Name}} {{.ImportPath}} {{.Dir}} {{join .Deps ","}}{{end}}`
	cmd := exec.Command("go", "list", "-f", format, "./...")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	require.NoError(t, err)
	setters, programs := []string{}, map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		require.GreaterOrEqual(t, len(fields), 3, line)
		name, path, dir, deps := fields[0], fields[1], fields[2], strings.Split(fields[len(fields)-1], ",")
		if setsLogger(t, dir) {
			setters = append(setters, path)
		}
		if name == "main" && slices.Contains(deps, library) {
			programs[path] = append(deps, path)
		}
	}
	require.Contains(t, programs, "berth.dev/berth/cmd/berth-controller")
	for path, packages := range programs {
		assert.True(t, slices.ContainsFunc(packages, func(p string) bool { return slices.Contains(setters, p) }), path)
	}
}

func setsLogger(t *testing.T, dir string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return !strings.HasSuffix(file, "_test.go") && strings.Contains(string(text), ".SetLogger(")
	})
}
