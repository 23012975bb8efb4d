// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/cluster"
)

// Tool runs kubectl or helm, as TryTool does, and demands that it succeeds.
func (w *World) Tool(name string, args ...string) []byte {
	w.T.Helper()
	out, err := w.TryTool(name, args...)
	require.NoError(w.T, err, "%s %v", name, args)
	return out
}

// TryTool runs kubectl or helm, built from their modules, as an administrator of the cluster, in the repository's root and
// without anything that its user keeps at home. It returns what they print; the error has their stderr.
func (w *World) TryTool(name string, args ...string) ([]byte, error) {
	w.T.Helper()
	binary, err := cluster.Binary(w.Ctx, os.Stderr, name)
	require.NoError(w.T, err)
	cmd := exec.CommandContext(w.Ctx, binary, args...)
	cmd.Dir = Path(".")
	home := w.toolsHome()
	cmd.Env = append(os.Environ(), "HOME="+home, "KUBECONFIG="+shared.kubeconfig, "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home,
		"HELM_DATA_HOME="+home)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, &said)
	}
	return out.Bytes(), nil
}

// toolsHome returns a directory that the tools of a cluster share: they keep there what the API server serves, which costs it seconds
// to put together. They read it again when a kind is missing.
func (w *World) toolsHome() string {
	w.T.Helper()
	if w.Cluster == nil {
		return w.T.TempDir()
	}
	home := filepath.Join(w.Cluster.Dir(), "tools")
	require.NoError(w.T, os.MkdirAll(home, 0o700))
	return home
}

// BuildCLI builds kubectl-berth into a directory.
func (w *World) BuildCLI(dir string) {
	w.T.Helper()
	build := exec.CommandContext(w.Ctx, "go", "build", "-o", dir+"/", "./cmd/kubectl-berth")
	build.Dir = Path(".")
	out, err := build.CombinedOutput()
	require.NoError(w.T, err, "%s", out)
}
