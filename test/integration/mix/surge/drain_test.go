// SPDX-License-Identifier: Apache-2.0

package surge_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/cli"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// drainRights are what the page of the command requires.
var drainRights = []rbacv1.PolicyRule{
	builders.Rule("", []string{"nodes"}, "get", "patch"), builders.Rule("", []string{"pods"}, "list"),
	builders.Rule("berth.dev", []string{"capacitymixes"}, "list"),
}

// berth runs kubectl berth as a user who may drain nodes.
func berth(w *testenv.World, args ...string) string {
	w.T.Helper()
	path, err := w.Cluster.Kubeconfig("drainer")
	require.NoError(w.T, err)
	var out bytes.Buffer
	cmd := cli.New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out})
	cmd.SetArgs(append(args, "--kubeconfig", path, "--cache-dir", w.T.TempDir()))
	require.NoError(w.T, cmd.ExecuteContext(w.Ctx), "%v: %s", args, &out)
	return out.String()
}

func TestADrainCostsNoReplica(t *testing.T) {
	const replicas = 8
	nodes := cluster.Nodes(spot, 2)
	w := testenv.New(t, append(nodes, cluster.Nodes(onDemand, 2)...)...)
	w.Create(builders.CapacityMix("web", 50, 0, surge), builders.Deployment("web", replicas), builders.PodDisruptionBudget("web", builders.MinAvailable("100%")))
	w.Create(builders.StatefulSet("db", 1, appsv1.ParallelPodManagement, builders.OnNode(nodes[0].Name)))
	w.WaitExact("web", split.New(50, 0), replicas, testenv.SettleTimeout)
	w.WaitReady("db", 1)
	w.Controller(testenv.Impatient)
	w.WaitSatisfied("web")
	on := testenv.NodesOf(w.Live("web"))[nodes[0].Name]
	require.Positive(t, on)
	recording := w.Record("web")

	w.CreateForTest(builders.ClusterGrant("drainer", builders.User("drainer"), drainRights...)...)
	out := berth(w, "drain", nodes[0].Name, "--timeout=2m")
	assert.Contains(t, out, "node/"+nodes[0].Name+" cordoned and marked")
	assert.Contains(t, out, "left 1 node.")
	assert.Contains(t, out, "1 pod is left, which no mix releases: "+w.Namespace+"/db-0.")
	w.WaitExact("web", split.New(50, 0), replicas, testenv.SettleTimeout)
	assert.Zero(t, testenv.NodesOf(w.Live("web"))[nodes[0].Name])
	_, all := recording.FewestReady(capacity.OnDemand, replicas)
	assert.Equal(t, replicas, all, "fewest Ready replicas at any instant")
	assert.Len(t, w.EvictionsOf("web"), on, "no other replica is evicted")

	out = berth(w, "drain", nodes[0].Name, "--undo")
	assert.Contains(t, out, "uncordoned, mark removed")
	node := testenv.ReadIn(w, "", nodes[0].Name, &corev1.Node{})
	assert.False(t, node.Spec.Unschedulable)
	assert.NotContains(t, node.Annotations, v1alpha1.DrainAnnotation)
}
