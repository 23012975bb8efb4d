// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mostRequirements is how many modules a client may get with the types, indirect ones included.
const mostRequirements = 20

// A client that imports the types, or the messages of the services, gets few modules, and no scheduler.
func TestClientsGetFewModules(t *testing.T) {
	for _, folder := range []string{"apis", "apis/proto"} {
		count := len(requirements(t, "../../"+folder))
		assert.LessOrEqual(t, count, mostRequirements, folder)
		assert.Regexp(t, fmt.Sprintf("\n\\| `berth.dev/berth/%s` \\| .* \\| %d \\|\n", folder, count), read(t, "apis/README.md"))
		packages := strings.Fields(run(t, "../../"+folder, "go", "list", "-deps", "./..."))
		assert.Contains(t, packages, map[string]string{"apis": "k8s.io/api/core/v1", "apis/proto": "google.golang.org/grpc"}[folder])
		for _, p := range packages {
			assert.False(t, in(p, "k8s.io/kubernetes", "k8s.io/client-go"), "%s imports %s", folder, p)
			assert.False(t, in(p, ours("")...) && !in(p, ours(folder)...), "%s imports %s", folder, p)
		}
	}
}

// Another module builds with the requirements of the types alone. The module cache has what they are.
func TestAModuleThatImportsTheTypesBuildsWithTheirModules(t *testing.T) {
	types, err := filepath.Abs("../../apis")
	require.NoError(t, err)
	sums, err := os.ReadFile(filepath.Join(types, "go.sum"))
	require.NoError(t, err)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.org/client\n\ngo 1.26.0\n\nrequire berth.dev/berth/apis v0.0.0\n\nreplace berth.dev/berth/apis => " + types + "\n",
		"go.sum": string(sums),
		"main.go": `package main

import (
	"fmt"

	"berth.dev/berth/apis/config/controller"
	_ "berth.dev/berth/apis/config/v1"
	_ "berth.dev/berth/apis/config/validation"
	"berth.dev/berth/apis/v1alpha1"
)

func main() { fmt.Print(v1alpha1.SchemeGroupVersion.Group, " ", controller.Default().LeaseName()) }
`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	run(t, types, "go", "mod", "graph") // the go.mod files that only a module without lazy loading needs
	t.Setenv("GOPROXY", "off")
	assert.Equal(t, "berth.dev berth-controller", run(t, dir, "go", "run", "-mod=mod", "."))
	got := requirements(t, dir)
	delete(got, "berth.dev/berth/apis")
	assert.Equal(t, requirements(t, types), got)
}

// What is tested is what clients, the other scheduler and the measurements are built with.
func TestModulesRequireTheSameVersions(t *testing.T) {
	all := requirements(t, "../..")
	for _, folder := range []string{"apis", "apis/proto", "cmd/berth-scheduler-gangs", "test/perf/upstream"} {
		shared := 0
		for module, version := range requirements(t, "../../"+folder) {
			if want, ok := all[module]; ok {
				shared++
				assert.Equal(t, want, version, "%s/go.mod: %s", folder, module)
			} else {
				assert.False(t, in(folder, "apis"), "%s/go.mod: go.mod has no %s", folder, module)
			}
		}
		assert.Greater(t, shared, 4, folder)
	}
}

// The example compiles, and a suite runs it (test/integration/platform/crd).
func TestTheReadmeOfTheTypesHasTheClientThatIsTested(t *testing.T) {
	code := strings.TrimPrefix(read(t, "test/apis/client/client.go"), "// SPDX-License-Identifier: Apache-2.0\n\n")
	assert.Contains(t, read(t, "apis/README.md"), "```go\n"+code+"```\n")
}

// A library that the local control plane or the generators have in another version than Berth is compiled twice on a new machine, and
// so is all that imports it. A replaced version is in the names of files that the compiler writes, and counts too.
func TestModulesThatShareTheBuildCacheShareVersions(t *testing.T) {
	versions := requiredIn(modFile(t, "../.."))
	for _, folder := range []string{"hack/cluster/controlplane", "hack/cluster/lws", "hack/cluster/jobset", "hack/tools", "hack/tools/reference"} {
		for module, version := range requiredIn(modFile(t, "../../"+folder)) {
			if ours := versions[module]; ours != "" {
				assert.Equal(t, ours, version, "%s/go.mod: %s", folder, module)
			}
		}
	}
}

type requirement struct{ Path, Version string }

// goMod has what the tests read of a go.mod file.
type goMod struct {
	Require []requirement
	Replace []struct{ Old, New requirement }
}

func modFile(t *testing.T, dir string) (file goMod) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(run(t, dir, "go", "mod", "edit", "-json")), &file))
	return file
}

func requiredIn(file goMod) map[string]string {
	versions := map[string]string{}
	for _, m := range file.Require {
		versions[m.Path] = m.Version
	}
	return versions
}

// requirements returns the versions of the modules that a go.mod file requires, as it replaces them.
func requirements(t *testing.T, dir string) map[string]string {
	t.Helper()
	file := modFile(t, dir)
	versions := requiredIn(file)
	for _, r := range file.Replace {
		if _, ok := versions[r.Old.Path]; ok && r.New.Version != "" {
			versions[r.Old.Path] = r.New.Version
		}
	}
	return versions
}

// run returns what a program prints that runs in a folder.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Stderr = dir, &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%v: %s", args, &stderr)
	return string(out)
}
