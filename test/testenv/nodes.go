// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
)

// Lane is a part of a world: nodes and pods that meet only each other. Cases
// that have to wait share one world and wait at the same time.
type Lane string

const laneLabel = "test.berth.dev/lane"

// Node is a node of the lane, named after it.
func (l Lane) Node(name, capacityType, cpus string, changes ...func(*cluster.NodeSpec)) cluster.NodeSpec {
	n := cluster.NodeSpec{Name: l.Name(name), CapacityType: capacityType, CPU: cpus, Labels: map[string]string{laneLabel: string(l)}}
	for _, change := range changes {
		change(&n)
	}
	return n
}

// Name is the full name of one of the lane's nodes.
func (l Lane) Name(node string) string { return string(l) + "-" + node }

// Pods ties a template's pods to the lane's nodes.
func (l Lane) Pods(t *corev1.PodTemplateSpec) { builders.OnNodesWith(laneLabel, string(l))(t) }

// Cordon makes nodes take no pods, or take them again.
func (w *World) Cordon(cordoned bool, nodes ...string) {
	w.T.Helper()
	for _, name := range nodes {
		w.ChangeNode(name, func(n *corev1.Node) { n.Spec.Unschedulable = cordoned })
	}
}

// ChangeNode changes a node.
func (w *World) ChangeNode(name string, change func(*corev1.Node)) {
	w.T.Helper()
	Patch(w, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, change)
}

// SetNodeCondition sets a condition of a node, as an administrator or a drain tool does. KWOK, like a kubelet, patches only its own
// conditions, and keeps it.
func (w *World) SetNodeCondition(node string, condition corev1.NodeConditionType, status corev1.ConditionStatus) {
	w.T.Helper()
	n := ReadIn(w, "", node, &corev1.Node{})
	before := n.DeepCopy()
	// The patch has this condition only; those that KWOK writes are merged with it.
	n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == condition })
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: condition, Status: status, Reason: "Test"})
	err := w.Client.Status().Patch(w.Ctx, n, client.StrategicMergeFrom(before))
	require.NoError(w.T, err, "set condition %s of node %s", condition, node)
}

// Drain cordons nodes and evicts the test's pods on them, as kubectl drain
// does. It returns the evicted pods.
func (w *World) Drain(nodes ...string) []corev1.Pod {
	w.T.Helper()
	w.Cordon(true, nodes...)
	return w.Evict(nodes...)
}

// Evict evicts the test's pods on nodes, and returns them.
func (w *World) Evict(nodes ...string) []corev1.Pod {
	w.T.Helper()
	var evicted []corev1.Pod
	for _, node := range nodes {
		evicted = append(evicted, w.Pods(client.MatchingFields{"spec.nodeName": node})...)
	}
	for _, p := range evicted {
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
		require.NoError(w.T, w.Kube.PolicyV1().Evictions(p.Namespace).Evict(w.Ctx, eviction), "evict pod %s", p.Name)
	}
	return evicted
}

// RequireTerminating demands that pods are still there, and terminating.
func (w *World) RequireTerminating(pods []corev1.Pod) {
	w.T.Helper()
	for _, p := range pods {
		now := Read(w, p.Name, &corev1.Pod{})
		require.Equal(w.T, p.UID, now.UID, "pod %s is still the same", p.Name)
		require.NotNil(w.T, now.DeletionTimestamp, "pod %s is terminating", p.Name)
	}
}

// WaitGone waits until pods are gone.
func (w *World) WaitGone(pods []corev1.Pod) {
	w.T.Helper()
	Becomes(w, fmt.Sprintf("%d pods are gone", len(pods)), 0, func() int {
		there := w.UIDs()
		return len(Where(pods, func(p *corev1.Pod) bool { return there[p.UID] != "" }))
	})
}
