// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"berth.dev/berth/internal/mix/clusterstate"
)

// SourceText names the source of a mix in a sentence.
func SourceText(source string) string {
	switch source {
	case "annotations/pod":
		return "the annotations of the pod"
	case "annotations/controller":
		return "the annotations of its controller"
	case "default":
		return "the scheduler's default mix"
	}
	return source
}

// UnknownTypeHint is what to do about a node of unknown type.
const UnknownTypeHint = "no rule matches the labels: add a rule to nodeRules of the plugin, or label the node " +
	"node.kubernetes.io/lifecycle=spot or =on-demand (docs/node-types.md)"

// WorkloadOf names the workload of a pod that has a controller, whether or not
// a mix governs it.
func (c *Cluster) WorkloadOf(p *clusterstate.Pod) clusterstate.Workload {
	w := clusterstate.Workload{Kind: p.Owner.Kind, Namespace: p.Namespace, Name: p.Owner.Name, UID: p.Owner.UID}
	if ref := c.above[p.Owner.UID]; ref != nil && p.Owner.Kind == "ReplicaSet" {
		w.Kind, w.Name, w.UID, w.Revision = ref.Kind, ref.Name, ref.UID, p.Owner.Name
	}
	return w
}
