// SPDX-License-Identifier: Apache-2.0

// Package cli_test runs kubectl berth against a real control plane, as a user
// with rights of its own, and compares what it prints with what is there.
package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/cli"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true})) }

// running is the scheduler of all tests here. It has its lease, as in a real
// cluster, so it is not restarted for each of them.
var running *cluster.Scheduler

// begin is world.New with a scheduler that holds its lease.
func begin(t *testing.T, nodes ...cluster.NodeSpec) *testenv.World {
	t.Helper()
	w := testenv.New(t, nodes...)
	if running == nil {
		o := testenv.SchedulerOptions(testenv.SecondScheduler)
		o.LeaderElection = nil // as in the profile
		running = w.StartScheduler(o)
	}
	w.SetScheduler(running)
	return w
}

// cluster-wide rights of a user of the tests.
var (
	viewer = []rbacv1.PolicyRule{
		builders.Rule("", []string{
			"pods", "nodes", "events", "configmaps", "namespaces", "persistentvolumes", "persistentvolumeclaims", "services",
			"replicationcontrollers",
		}, "get", "list"),
		{
			APIGroups: []string{"apps", "batch", "policy", "storage.k8s.io", "resource.k8s.io", "coordination.k8s.io"},
			Resources: []string{"*"}, Verbs: []string{"get", "list"},
		},
		builders.Rule("berth.dev", []string{
			"capacitymixes", "resourcelimits", "schedulingpolicies", "schedulingdecisions", "reservations", "deploymentrecords", "environments",
		}, "get", "list"),
	}
	editor       = append([]rbacv1.PolicyRule{builders.Rule("berth.dev", []string{"capacitymixes"}, "create", "update")}, viewer...)
	doctorRights = append([]rbacv1.PolicyRule{
		builders.Rule("authorization.k8s.io", []string{"subjectaccessreviews"}, "create"),
		builders.Rule("apiextensions.k8s.io", []string{"customresourcedefinitions"}, "get"),
	}, viewer...)
)

// user makes a user with rights and returns its kubeconfig.
func user(w *testenv.World, name string, rules []rbacv1.PolicyRule) string {
	w.T.Helper()
	w.CreateForTest(builders.ClusterGrant(name, builders.User(name), rules...)...)
	path, err := w.Cluster.Kubeconfig(name)
	require.NoError(w.T, err)
	return path
}

// result is what a run of the command printed.
type result struct {
	out, errOut string
	err         error
}

// kubectl runs kubectl berth with a kubeconfig in the test's namespace.
func kubectl(w *testenv.World, kubeconfig, stdin string, args ...string) result {
	w.T.Helper()
	var out, errOut bytes.Buffer
	cmd := cli.New(genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &errOut})
	flags := []string{"--kubeconfig", kubeconfig, "--cache-dir", w.T.TempDir()}
	if args[0] == cobra.ShellCompRequestCmd { // what is completed is the last word
		args = slices.Concat(args[:1], flags, args[1:])
	} else {
		args = slices.Concat(args, flags)
	}
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(w.Ctx)
	w.T.Logf("kubectl berth %s\n%s%s", strings.Join(args[:len(args)-len(flags)], " "), out.String(), errOut.String())
	return result{out.String(), errOut.String(), err}
}

// ok demands that a run succeeded.
func (r result) ok(t *testing.T) result {
	t.Helper()
	require.NoError(t, r.err, "%s%s", r.out, r.errOut)
	return r
}

// decode reads the JSON that a run printed.
func decode[T any](t *testing.T, r result) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal([]byte(r.ok(t).out), &v))
	return v
}

// cpus makes nodes of a size.
func cpus(n string) func(*cluster.NodeSpec) {
	return func(s *cluster.NodeSpec) { s.CPU = n }
}

// onNode makes a template's pods those of the default scheduler, which has put them on a node.
func onNode(node string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.SchedulerName, t.Spec.NodeName = corev1.DefaultSchedulerName, node
	}
}
