// SPDX-License-Identifier: Apache-2.0

package live

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/mix/clusterstate"
)

// above is what stands above ReplicaSets, by their UID.
type above map[types.UID]*metav1.OwnerReference

func aboveOf(owners []client.Object) above {
	out := above{}
	for _, o := range owners {
		if ref := metav1.GetControllerOf(o); ref != nil {
			out[o.GetUID()] = ref
		}
	}
	return out
}

// WorkloadOf names the workload of a pod that has a controller, whether or not
// a mix governs it.
func (c *Cluster) WorkloadOf(p *clusterstate.Pod) clusterstate.Workload {
	w := clusterstate.Workload{Kind: p.Owner.Kind, Namespace: p.Namespace, Name: p.Owner.Name, UID: p.Owner.UID}
	if ref := c.above[p.Owner.UID]; ref != nil && p.Owner.Kind == "ReplicaSet" {
		w.Kind, w.Name, w.UID, w.Revision = ref.Kind, ref.Name, ref.UID, p.Owner.Name
	}
	return w
}
