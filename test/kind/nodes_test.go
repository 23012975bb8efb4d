// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// A spot node is drained with kubectl, as users do before a reclaim: its
// replicas go to the other one, and never fewer are Ready than the budget requires.
func TestASpotNodeIsDrained(t *testing.T) {
	w := testenv.New(t)
	w.Create(builders.CapacityMix("web", 70, 2), builders.PodDisruptionBudget("web", builders.MinAvailable("9")), builders.Deployment("web", 10, probed))
	w.WaitReady("web", 10)
	w.RequireExact("web", split.New(70, 2), 10)
	node := nodesOf(w, "spot")[0]
	record := w.Record("web")
	t.Cleanup(func() { w.Tool("kubectl", "uncordon", node) })
	w.Tool("kubectl", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s", "--pod-selector=app=web")
	w.WaitReady("web", 10)
	for _, p := range w.RequireExact("web", split.New(70, 2), 10) {
		assert.NotEqual(t, node, p.Spec.NodeName)
	}
	onDemand, all := record.FewestReady(capacity.OnDemand, 10)
	assert.GreaterOrEqual(t, onDemand, 2, "Ready replicas on on-demand at any instant")
	assert.GreaterOrEqual(t, all, 9, "Ready replicas at any instant")
}

// A spot node vanishes: what ran there is recreated on the other one.
func TestASpotNodeVanishes(t *testing.T) {
	w := testenv.New(t)
	soon := func(pod *corev1.PodTemplateSpec) {
		for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(2))})
		}
	}
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10, probed, soon))
	w.WaitReady("web", 10)
	w.RequireExact("web", split.New(70, 2), 10)
	node := nodesOf(w, "spot")[1]
	t.Cleanup(func() {
		docker(w, "start", node)
		testenv.Becomes(w.UpTo(startTimeout), "taints of the node that is back", 0, func() int {
			return len(testenv.ReadIn(w, "", node, &corev1.Node{}).Spec.Taints)
		})
	})
	docker(w, "kill", node)
	w.Within(startTimeout, "ten replicas are Ready, none where the node was", func() (bool, string) {
		pods := w.Live("web")
		away := testenv.Where(pods, func(p *corev1.Pod) bool { return p.Spec.NodeName != node && testenv.Ready(p) })
		return len(pods) == 10 && len(away) == 10, w.SplitOf(pods).String()
	})
	w.RequireExact("web", split.New(70, 2), 10)
}

// The leaders are deleted in the middle of a burst: the others take over, and the mix is exact.
func TestTheLeadersAreReplaced(t *testing.T) {
	w := testenv.New(t)
	web := builders.Deployment("web", 0)
	w.Create(builders.CapacityMix("web", 50, 3), web)
	for round := range 2 {
		w.Scale(web, 12)
		for _, program := range programs {
			leader := leaderOf(w, program)
			w.Tool("kubectl", "--namespace", berthNamespace, "delete", "pod", leader, "--wait=false")
			w.Within(startTimeout, "another one leads", func() (bool, string) {
				now := leaderOf(w, program)
				return now != leader, now
			})
		}
		w.WaitReady("web", 12)
		w.RequireExact("web", split.New(50, 3), 12)
		w.Scale(web, int32(round))
		w.WaitReady("web", round)
	}
	for _, program := range programs {
		waitRolledOut(w, program)
	}
}

// leaderOf returns the pod that leads, by the program's lease.
func leaderOf(w *testenv.World, program string) string {
	w.T.Helper()
	lease := testenv.ReadIn(w, berthNamespace, program, &coordinationv1.Lease{})
	pod, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
	return pod
}
