// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/policies/registry"
)

// NodeDetail is a node with what runs on it.
type NodeDetail struct {
	NodeStatus
	// Node is as the API has it.
	Node *corev1.Node
	// Others are the pods on it that no mix governs and that are not finished, by namespace and name.
	Others []*corev1.Pod
}

// NodeDetails are the nodes of a cluster, nil where they were not read.
func NodeDetails(c *Cluster) []NodeDetail {
	if c.Missing("nodes") {
		return nil
	}
	objects := nodeObjects(c)
	others := ungoverned(c)
	all := NodesOf(c, false, nil).Nodes
	details := make([]NodeDetail, 0, len(all))
	for i := range all {
		details = append(details, NodeDetail{NodeStatus: all[i], Node: objects[all[i].Name], Others: others[all[i].Name]})
	}
	return details
}

// ungoverned are the pods that no mix governs, by their node.
func ungoverned(c *Cluster) map[string][]*corev1.Pod {
	pods := map[string][]*corev1.Pod{}
	for o, p := range c.LivePods() {
		if mix, _ := c.State.Resolve(p); mix == nil && p.Bound() {
			pods[p.Node] = append(pods[p.Node], o)
		}
	}
	for _, on := range pods {
		slices.SortFunc(on, func(a, b *corev1.Pod) int { return byNames(a.Namespace, a.Name, b.Namespace, b.Name) })
	}
	return pods
}

func byNames(namespace, name, otherNamespace, otherName string) int {
	if c := display.Natural(namespace, otherNamespace); c != 0 {
		return c
	}
	return display.Natural(name, otherName)
}

// PolicyWorkload is a workload whose pods a SchedulingPolicy governs.
type PolicyWorkload struct {
	Namespace, Kind, Name string
	Pods                  int
}

// PolicyWorkloads are the workloads of each SchedulingPolicy, by its namespace and name: those of the pods that it governs as the
// scheduler decides it, the oldest policy first.
func PolicyWorkloads(c *Cluster) map[[2]string][]PolicyWorkload {
	policies := registry.Of(c.Policies)
	type key struct {
		policy [2]string
		PolicyWorkload
	}
	pods := map[key]int{}
	for o, p := range c.LivePods() {
		policy := policies.For(o)
		if policy == nil {
			continue
		}
		w := c.WorkloadOf(p)
		of := PolicyWorkload{Namespace: p.Namespace, Kind: w.Kind, Name: w.Name}
		if w.Name == "" {
			of.Kind, of.Name = "Pod", p.Name
		}
		pods[key{[2]string{p.Namespace, policy.Object.Name}, of}]++
	}
	workloads := map[[2]string][]PolicyWorkload{}
	for k, n := range pods {
		w := k.PolicyWorkload
		w.Pods = n
		workloads[k.policy] = append(workloads[k.policy], w)
	}
	for _, all := range workloads {
		slices.SortFunc(all, func(a, b PolicyWorkload) int { return byNames(a.Kind, a.Name, b.Kind, b.Name) })
	}
	return workloads
}
