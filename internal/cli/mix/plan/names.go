// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/internal/cli/live"
	"berth.dev/berth/internal/mix/clusterstate"
)

type labelSet = labels.Set

// name is what kubectl calls a workload.
func name(w clusterstate.Workload) string { return w.Kind + "/" + w.Name }

// ownerOf is the workload of a pod, whether or not a mix governs it. The
// workload above a ReplicaSet is known only where the ReplicaSet could be read.
func ownerOf(c *live.Cluster, p *clusterstate.Pod) string {
	if p.Owner == nil {
		return "Pod/" + p.Name
	}
	return name(c.WorkloadOf(p))
}
