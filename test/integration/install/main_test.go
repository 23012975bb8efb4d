// SPDX-License-Identifier: Apache-2.0

// Package install_test installs Berth as its users do, with the real helm and
// kubectl on a real API server: the chart, the overlays and install.yaml say the
// same, are accepted, and what they grant is what the programs need.
package install_test

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/world"
)

const (
	chart     = "manifests/chart"
	overlays  = "manifests/overlays/"
	rendered  = "manifests/install.yaml"
	namespace = "berth-system"
)

func TestMain(m *testing.M) {
	os.Exit(world.Main(m, world.Options{NoCRDs: true, NoRBAC: true, NoScheduler: true}))
}

// tool runs kubectl or helm against the control plane and returns what it prints.
func tool(w *world.World, name string, args ...string) []byte {
	w.T.Helper()
	out, err := try(w, name, args...)
	require.NoError(w.T, err, "%s %v", name, args)
	return out
}

// try runs kubectl or helm. The error has what it said.
func try(w *world.World, name string, args ...string) ([]byte, error) {
	w.T.Helper()
	binary, err := cluster.Binary(w.Ctx, os.Stderr, name)
	require.NoError(w.T, err)
	cmd := exec.CommandContext(w.Ctx, binary, args...)
	cmd.Dir = world.Path(".")
	home := w.T.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "KUBECONFIG="+w.Cluster.KubeconfigPath(), "HELM_CONFIG_HOME="+home, "HELM_CACHE_HOME="+home, "HELM_DATA_HOME="+home)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, &failed{err, said.String()}
	}
	return out.Bytes(), nil
}

// failed is a command that failed, with what it said.
type failed struct {
	error
	said string
}

func (f *failed) Error() string { return f.error.Error() + ": " + f.said }

// template renders the chart for a namespace of a cluster that has the CRDs.
func template(w *world.World, namespace string, values ...string) []byte {
	w.T.Helper()
	args := []string{"template", "berth", chart, "--namespace", namespace, "--api-versions", "berth.dev/v1alpha1/DeploymentTemplate", "--kube-version", "1.34"}
	return tool(w, "helm", append(args, set(values...)...)...)
}

// set are helm's arguments for values.
func set(values ...string) (args []string) {
	for _, v := range values {
		args = append(args, "--set", v)
	}
	return args
}
