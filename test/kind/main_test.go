// SPDX-License-Identifier: Apache-2.0

// Package kind_test runs on a kind cluster, with Berth as its chart installs it: what the local control plane has no
// kubelets for, and the promises of test/specs once more. `make kind-up test-kind`.
package kind_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

const berthNamespace = "berth-system"

// programs are Berth's Deployments.
var programs = []string{"berth-scheduler", "berth-controller", "berth-records", "berth-environments"}

// startTimeout bounds the wait for what takes containers or nodes to start.
const startTimeout = 3 * time.Minute

func TestMain(m *testing.M) {
	kubeconfig := testenv.Path(".kind/kubeconfig")
	if _, err := os.Stat(kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, "no kind cluster: make kind-up creates one")
		os.Exit(1)
	}
	os.Exit(testenv.On(m, kubeconfig))
}

// docker runs docker on the machine that has the nodes.
func docker(w *testenv.World, args ...string) {
	w.T.Helper()
	out, err := exec.CommandContext(w.Ctx, "docker", args...).CombinedOutput()
	require.NoError(w.T, err, "docker %v: %s", args, out)
}

// nodesOf returns the names of the nodes of a capacity type.
func nodesOf(w *testenv.World, capacityType string) []string {
	w.T.Helper()
	return w.Names(&corev1.NodeList{}, client.MatchingLabels{cluster.CapacityTypeLabel: capacityType})
}

// probed gives a template's container a readiness probe.
func probed(t *corev1.PodTemplateSpec) {
	t.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8080)}},
		PeriodSeconds: 1,
	}
}

// berthPods returns the pods of one of Berth's programs.
func berthPods(w *testenv.World, program string) []corev1.Pod {
	w.T.Helper()
	return w.Pods(client.InNamespace(berthNamespace), client.MatchingLabels{"app.kubernetes.io/name": program})
}

// waitRolledOut waits until all pods of a program are there and Ready.
func waitRolledOut(w *testenv.World, program string) {
	w.T.Helper()
	w.Tool("kubectl", "--namespace", berthNamespace, "rollout", "status", "deployment/"+program, "--timeout=2m")
}

// logs returns what a pod's container wrote.
func logs(w *testenv.World, namespace string, args ...string) string {
	w.T.Helper()
	return string(w.Tool("kubectl", append([]string{"--namespace", namespace, "logs"}, args...)...))
}
