// SPDX-License-Identifier: Apache-2.0

package capacity

import "slices"

// poolLabels are the labels with the name of the node pool, of Karpenter and of managed offers of Kubernetes.
var poolLabels = []string{
	"karpenter.sh/nodepool", "eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool",
	"doks.digitalocean.com/node-pool", "k8s.scaleway.com/pool-name",
}

// PoolLabels returns the keys of the labels by which PoolOf finds the name of a node pool.
func PoolLabels() []string { return slices.Clone(poolLabels) }

// PoolOf is the node pool of a node by its labels, "" if they name none.
func PoolOf(labels map[string]string) string {
	for _, label := range poolLabels {
		if pool := labels[label]; pool != "" {
			return pool
		}
	}
	return ""
}
