// SPDX-License-Identifier: Apache-2.0

package live

import "berth.dev/berth/internal/mix/clusterstate"

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

// WorkloadText names a workload in a sentence.
func WorkloadText(w clusterstate.Workload) string {
	if w.UID == "" {
		return "the pods of " + SourceText(w.Name) + " that have no controller"
	}
	return w.String()
}

const UnknownTypeHint = "no rule matches the labels: add a rule to nodeRules of the plugin, or label the node " +
	"node.kubernetes.io/lifecycle=spot or =on-demand (docs/node-types.md)"
