// SPDX-License-Identifier: Apache-2.0

package scheduling_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func bind(mode v1alpha1.BindMode) func(*v1alpha1.SchedulingPolicySpec) {
	return func(s *v1alpha1.SchedulingPolicySpec) { s.Bind = &v1alpha1.BindRules{Mode: mode} }
}

// rival starts a second berth-scheduler, for pods of its own.
func rival(w *testenv.World, name string) *cluster.Scheduler {
	w.T.Helper()
	o := w.Variant(testenv.SecondScheduler, func(c testenv.Config) {
		for _, profile := range c.Profiles() {
			profile["schedulerName"] = name
		}
	})
	o.Name = name
	o.LeaderElection = &cluster.LeaderElection{Enabled: new(false)}
	s := w.StartScheduler(o)
	w.T.Cleanup(func() { testenv.Kill(s) })
	return s
}

// overcommitted are the nodes on which pods request more CPU than there is.
func overcommitted(w *testenv.World, cpus int64, pods []corev1.Pod) (nodes []string) {
	used := map[string]int64{}
	for i := range pods {
		if pods[i].Spec.NodeName != "" {
			used[pods[i].Spec.NodeName] += pods[i].Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		}
	}
	for name, millis := range used {
		if millis > cpus*1000 {
			nodes = append(nodes, name)
		}
	}
	return nodes
}

// Two schedulers fill the same nodes at the same time, with pods for more than there is. What one binds, the other learns a
// moment later: both see the last CPU of a node as free.
func TestTwoPessimisticSchedulersDoNotOvercommitANode(t *testing.T) {
	const nodes, cpus, perScheduler = 8, 4, 30
	for _, mode := range []v1alpha1.BindMode{v1alpha1.BindOptimistic, v1alpha1.BindPessimistic} {
		t.Run(string(mode), func(t *testing.T) {
			w := testenv.New(t, cluster.Nodes("", nodes, func(n *cluster.NodeSpec) { n.CPU, n.Memory = fmt.Sprint(cpus), "64Gi" })...)
			start(w)
			rival(w, "rival")
			// The same order of nodes in both: they compete for each.
			w.Create(builders.SchedulingPolicy("all", bind(mode), preset(v1alpha1.ScorePresetPack), tieBreaker(v1alpha1.TieBreakerName)))
			w.Create(builders.Deployment("ours", perScheduler, builders.CPU("1")),
				builders.Deployment("theirs", perScheduler, builders.CPU("1"), builders.SchedulerName("rival")))
			var pods []corev1.Pod
			w.Eventually("the nodes are full", func() (bool, string) {
				pods = w.Pods()
				bound := len(testenv.Where(pods, testenv.Bound))
				return bound >= nodes*cpus, fmt.Sprint(bound, " pods are bound")
			})
			over := overcommitted(w, cpus, pods)
			t.Logf("%s: %d of %d nodes are overcommitted", mode, len(over), nodes)
			if mode == v1alpha1.BindPessimistic {
				assert.Empty(t, over)
				w.Always(testenv.Short, "no node is overcommitted", func() (bool, string) {
					over := overcommitted(w, cpus, w.Pods())
					return len(over) == 0, fmt.Sprint(over)
				})
				waitUnlocked(w)
			}
		})
	}
}

// waitUnlocked waits until no node is locked.
func waitUnlocked(w *testenv.World) {
	w.T.Helper()
	w.Eventually("no node is locked", func() (bool, string) {
		var leases coordinationv1.LeaseList
		require.NoError(w.T, w.Client.List(w.Ctx, &leases, client.InNamespace("berth-system")))
		for i := range leases.Items {
			l := &leases.Items[i]
			if len(l.OwnerReferences) > 0 && l.OwnerReferences[0].Kind == "Node" && l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "" {
				return false, l.Name
			}
		}
		return true, ""
	})
}

// A scheduler that is killed while it holds a lock holds up others until the Lease expires, and no longer.
func TestALockOfAKilledSchedulerExpires(t *testing.T) {
	w := testenv.New(t, cluster.NodeSpec{Name: "only", CPU: "8", Memory: "64Gi"})
	start(w)
	locked := &coordinationv1.Lease{}
	locked.Namespace, locked.Name = "berth-system", "node-lock-only"
	locked.Spec.HolderIdentity, locked.Spec.LeaseDurationSeconds = new("killed"), new(int32(4))
	w.CreateForTest(locked)
	w.Create(builders.SchedulingPolicy("all", bind(v1alpha1.BindPessimistic)), builders.Pod("web", "web-0"))
	began := time.Now()
	w.WaitBound("web", 1)
	assert.GreaterOrEqual(t, time.Since(began), 4*time.Second, "it waited for the lock")
	waitUnlocked(w)
}
