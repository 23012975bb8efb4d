// SPDX-License-Identifier: Apache-2.0

// Package install_test installs Berth as its users do, with the real helm and
// kubectl on a real API server: the chart, the overlays and install.yaml say the
// same, are accepted, and what they grant is what the programs need.
package install_test

import (
	"os"
	"testing"

	"berth.dev/berth/test/testenv"
)

const (
	chart     = "manifests/chart"
	overlays  = "manifests/overlays/"
	rendered  = "manifests/install.yaml"
	namespace = "berth-system"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{NoCRDs: true, NoRBAC: true, NoScheduler: true}))
}

// template renders the chart for a namespace of a cluster that has the CRDs.
func template(w *testenv.World, namespace string, values ...string) []byte {
	w.T.Helper()
	args := []string{"template", "berth", chart, "--namespace", namespace, "--api-versions", "berth.dev/v1alpha1/DeploymentTemplate", "--kube-version", "1.34"}
	return w.Tool("helm", append(args, set(values...)...)...)
}

// set are helm's arguments for values.
func set(values ...string) (args []string) {
	for _, v := range values {
		args = append(args, "--set", v)
	}
	return args
}
