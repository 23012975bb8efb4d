// SPDX-License-Identifier: Apache-2.0

package floor_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/kube/pods"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// mark drains a node as kubectl berth drain does.
func mark(w *testenv.World, node string) {
	w.T.Helper()
	w.ChangeNode(node, func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.DrainAnnotation, time.Now().UTC().Format(time.RFC3339))
	})
}

// released are the replicas of an app that run beside their replacements, or without.
func released(w *testenv.World, app string) []corev1.Pod {
	return testenv.Where(w.Live(app), func(p *corev1.Pod) bool { _, is := pods.ReleasedFrom(p); return is })
}

// on counts the replicas of an app on some nodes.
func on(w *testenv.World, app string, nodes []cluster.NodeSpec) (n int) {
	of := testenv.NodesOf(w.Live(app))
	for i := range nodes {
		n += of[nodes[i].Name]
	}
	return n
}

// A replica that is released without a place for its replacement ends at its deadline, below the floor.
func TestADrainOfAllNodesReleasesReplicasOnlyToCapacity(t *testing.T) {
	const replicas = 3
	nodes := cluster.Nodes(onDemand, 2)
	w := testenv.New(t, append(cluster.Nodes(spot, 2), nodes...)...)
	w.Create(builders.CapacityMix("web", 50, replicas, builders.ProtectFloor, surge),
		builders.Deployment("web", replicas, builders.CPU("1"), builders.ReadyAfter(time.Second)))
	w.Controller(testenv.Impatient)
	w.WaitExact("web", split.New(50, replicas), replicas, testenv.SettleTimeout)
	waitFloors(w, replicas)
	waitLabelled(w, "web", replicas)
	w.WaitSatisfied("web")
	recording := w.Record("web")
	end := evictor(w, "web")
	for i := range nodes {
		mark(w, nodes[i].Name)
	}
	blocked := func() {
		w.WaitBlocked("web", "InsufficientCapacity", "is being drained", "is not released", "no on-demand node has free capacity")
	}
	blocked()
	w.WaitEvent("web", "why no replica leaves the nodes", func(e *corev1.Event) bool {
		return e.Reason == v1alpha1.EventReasonMoveBlocked && strings.HasPrefix(e.Message, "InsufficientCapacity: ")
	})
	w.Always(5*time.Second, "no replica is released", func() (bool, string) {
		return len(released(w, "web")) == 0 && on(w, "web", nodes) == replicas, fmt.Sprint(len(released(w, "web")))
	})

	late := cluster.Nodes(onDemand, 2, func(n *cluster.NodeSpec) { n.Name = "late-" + n.Name })
	late[0].CPU = "1"
	w.AddNodes(late[0])
	w.Eventually("one replica leaves for the one place", func() (bool, string) {
		n := on(w, "web", nodes)
		return n == replicas-1 && len(w.Live("web")) == replicas, fmt.Sprint(n)
	})
	blocked()
	assert.Empty(t, released(w, "web"), "the others have none")
	w.AddNodes(late[1])
	w.Eventually("the others leave", func() (bool, string) { n := on(w, "web", nodes); return n == 0, fmt.Sprint(n) })
	end()
	w.WaitReady("web", replicas)
	ready, _ := recording.FewestReady(capacity.OnDemand, replicas)
	assert.GreaterOrEqual(t, ready, replicas, "fewest Ready replicas on on-demand at any event")
}

// drainer runs kubectl drain of some nodes at once, each in a process of its own, and returns a function that waits for their ends.
func drainer(w *testenv.World, nodes []cluster.NodeSpec, timeout time.Duration) (wait func() []error) {
	w.T.Helper()
	w.Tool(cluster.Kubectl, "version", "--client") // it is built before the time counts
	var group sync.WaitGroup
	ends := make([]error, len(nodes))
	for i := range nodes {
		group.Go(func() {
			_, ends[i] = w.TryTool(cluster.Kubectl, "drain", nodes[i].Name, "--ignore-daemonsets", "--timeout="+timeout.String())
		})
	}
	return func() []error {
		group.Wait()
		return ends
	}
}

// kubectl drain of all on-demand nodes at once, and beside it the taint and the evictions of cluster-autoscaler, which the test plays: its
// modules cannot be had. Karpenter is in test/karpenter.
func TestKubectlDrainOfAllNodesLeavesTheFloor(t *testing.T) {
	const replicas, floor = 10, 3
	long := testenv.Length(16*time.Second, 10*time.Minute) // kubectl tries again every 5 s
	nodes := cluster.Nodes(onDemand, 3)
	w := testenv.New(t, append(cluster.Nodes(spot, 3), nodes...)...)
	w.Controller(testenv.Impatient)
	m := split.New(50, floor)
	w.Create(builders.CapacityMix("web", 50, floor, builders.ProtectFloor, surge), builders.Deployment("web", replicas))
	w.WaitExact("web", m, replicas, testenv.SettleTimeout)
	waitFloors(w, floor)
	waitLabelled(w, "web", m.OnDemand(replicas))
	w.WaitReady("web", replicas)
	recording := w.Record("web")

	wait := drainer(w, nodes, long+testenv.SettleTimeout)
	w.ChangeNode(nodes[0].Name, func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule})
	})
	end := evictor(w, "web")
	// One that was released before the other nodes were cordoned stays until its replacement runs, and does not count for the floor.
	w.Eventually("what is above the floor goes", func() (bool, string) {
		n, leaving := on(w, "web", nodes), len(released(w, "web"))
		return n-leaving == floor, fmt.Sprintf("%d, %d of them released", n, leaving)
	})
	w.Always(long, "the floor stays", func() (bool, string) { n := on(w, "web", nodes); return n >= floor, fmt.Sprint(n) })
	w.AddNodes(cluster.Nodes(onDemand, 3, func(n *cluster.NodeSpec) { n.Name = "late-" + n.Name })...)
	for i, err := range wait() {
		require.NoError(t, err, "the drain of %s ends once there is capacity", nodes[i].Name)
	}
	assert.Positive(t, end())
	assert.Zero(t, on(w, "web", nodes))
	ready, _ := recording.FewestReady(capacity.OnDemand, replicas)
	assert.GreaterOrEqual(t, ready, floor, "fewest Ready replicas on on-demand at any event")
}

// A budget of pods would let one pod of each unit go, which ends all of them.
func TestTheFloorOfUnitsIsNotProtected(t *testing.T) {
	w := testenv.New(t, append(cluster.Nodes(spot, 2), cluster.Nodes(onDemand, 2)...)...)
	w.Controller(testenv.Impatient)
	inUnits := func(m *v1alpha1.CapacityMix) {
		m.Spec.Unit = &v1alpha1.PodUnit{Type: v1alpha1.PodUnitLabel, LabelKey: "unit"}
	}
	w.Create(builders.CapacityMix("web", 50, 1, builders.ProtectFloor, inUnits), builders.Deployment("web", 4, func(p *corev1.PodTemplateSpec) {
		p.Labels["unit"] = "a"
	}))
	w.WaitReady("web", 4)
	cm := w.WaitCondition("web", v1alpha1.ConditionFloorProtected, false, v1alpha1.ReasonUnits)
	assert.Contains(t, conditionOf(cm, v1alpha1.ConditionFloorProtected).Message, "units of pods")
	w.Always(3*time.Second, "there is no budget", func() (bool, string) { have := floors(w); return len(have) == 0, fmt.Sprint(have) })

	w.ChangeMix("web", func(m *v1alpha1.CapacityMix) { m.Spec.Unit = nil })
	waitFloors(w, 1)
	w.WaitCondition("web", v1alpha1.ConditionFloorProtected, true, v1alpha1.ReasonBudgetsKept)
}
