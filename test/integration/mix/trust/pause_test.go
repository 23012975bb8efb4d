// SPDX-License-Identifier: Apache-2.0

// Package trust_test stops, paces and restricts the moves of the real controller on a real control plane.
package trust_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/cli"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{})) }

const (
	spot     = v1alpha1.CapacityTypeSpot
	onDemand = v1alpha1.CapacityTypeOnDemand
	replicas = 10
	paused   = "Paused"
)

var seventy = split.New(70, 2)

// astray makes a world with a workload of ten that is on on-demand as a whole, and capacity on spot for what belongs there.
func astray(t *testing.T, change ...func(*v1alpha1.CapacityMix)) *testenv.World {
	t.Helper()
	return manyAstray(t, replicas, change...)
}

// manyAstray is astray for n replicas.
func manyAstray(t *testing.T, n int, change ...func(*v1alpha1.CapacityMix)) *testenv.World {
	t.Helper()
	w := testenv.New(t, cluster.Nodes(onDemand, 4)...)
	w.Create(builders.CapacityMix("web", 70, 2, change...), builders.Deployment("web", int32(n), builders.ReadyAfter(500*time.Millisecond)))
	w.WaitReady("web", n)
	w.AddNodes(cluster.Nodes(spot, 4)...)
	return w
}

// berth runs kubectl berth as a user in the test's namespace.
func berth(w *testenv.World, kubeconfig string, args ...string) (string, error) {
	w.T.Helper()
	var out bytes.Buffer
	cmd := cli.New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out})
	cmd.SetArgs(append(args, "--kubeconfig", kubeconfig, "--cache-dir", w.T.TempDir()))
	err := cmd.ExecuteContext(w.Ctx)
	w.T.Logf("kubectl berth %v\n%s", args, out.String())
	return out.String(), err
}

// member makes a user with the right of a role that the manifests have, and returns its kubeconfig.
func member(w *testenv.World, name string, roles ...string) string {
	w.T.Helper()
	for _, role := range roles {
		binding := &rbacv1.ClusterRoleBinding{
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{builders.User(name)},
		}
		binding.Name = name + "-" + role
		w.CreateForTest(binding)
	}
	path, err := w.Cluster.Kubeconfig(name)
	require.NoError(w.T, err)
	return path
}

// holds demands that nothing is evicted any more, and returns how many pods were.
func holds(w *testenv.World, most int) int {
	w.T.Helper()
	w.WaitBlocked("web", paused, "moves are paused for")
	n := w.Evicted()
	assert.LessOrEqual(w.T, n, most, "evictions after the pause")
	w.Always(testenv.Holds, "nothing is evicted", func() (bool, string) { return w.Evicted() == n, "" })
	return n
}

func TestAPauseOfEachScopeStopsMovesAndSurvivesARestart(t *testing.T) {
	const replicas = 24 // there is something left to move at each pause, however many move until it is written on a busy machine
	w := manyAstray(t, replicas)
	pauser := member(w, "pia", "berth-pauser")
	editor := member(w, "eve", "berth-edit")
	c := w.Controller(testenv.Impatient)
	for _, x := range []struct {
		scope, user, words string
		args               []string
	}{
		{"mix", editor, "mix web, by eve since ", []string{"mix/web", "-n", w.Namespace}},
		{"namespace", pauser, "namespace " + w.Namespace + ", by pia since ", []string{"-n", w.Namespace}},
		{"cluster", pauser, "the cluster, by pia since ", []string{"--cluster"}},
	} {
		w.WaitEvictions(w.Evicted() + 1)
		before := w.Evicted()
		_, err := berth(w, x.user, append([]string{"pause", "--dry-run=server"}, x.args...)...)
		require.NoError(t, err)
		w.WaitEvictions(before + 1) // it was a dry run

		_, err = berth(w, x.user, append([]string{"pause", "--reason", "incident 4711"}, x.args...)...)
		require.NoError(t, err)
		n := holds(w, w.Evicted()+1) // one may have been on its way
		message := w.WaitBlocked("web", paused, x.words, ": incident 4711")
		w.WaitReady("web", replicas)
		w.Eventually("what was evicted came back, and the move is over", func() (bool, string) {
			value := w.Metric(c, "berth_mix_moving_pods", map[string]string{"namespace": w.Namespace})
			return value == 0, ""
		})
		assert.Equal(t, 1, w.Metric(c, "berth_mix_paused", map[string]string{"scope": x.scope}))

		testenv.End(c, true)
		w.DropLease("berth-system", "berth-controller")
		c = w.Controller(testenv.Impatient)
		assert.Equal(t, n, holds(w, n), "after a restart")
		assert.Equal(t, message, w.WaitBlocked("web", paused), "who paused, and when")

		out, err := berth(w, x.user, append([]string{"resume"}, x.args...)...)
		require.NoError(t, err)
		assert.Contains(t, out, "resumed")
		assert.NotContains(t, out, "still paused")
	}
	w.WaitRepaired("web", seventy, replicas, testenv.SettleTimeout)
	w.WaitSatisfied("web")

	_, err := berth(w, editor, "pause", "-n", w.Namespace)
	require.ErrorContains(t, err, "forbidden", "a user who edits mixes does not change Namespaces")
	_, err = berth(w, editor, "pause", "--cluster")
	require.ErrorContains(t, err, "forbidden")
}
