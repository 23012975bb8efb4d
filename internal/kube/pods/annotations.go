// SPDX-License-Identifier: Apache-2.0

package pods

// Annotations of other tools by which users keep a pod where it is.
const (
	// DoNotDisrupt is Karpenter's: "true", or a duration from the pod's start.
	DoNotDisrupt = "karpenter.sh/do-not-disrupt"
	// SafeToEvict is the cluster-autoscaler's: "false" keeps the pod, "true" allows to evict it in spite of local data.
	SafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	// PreferNoEviction is the descheduler's; its presence counts.
	PreferNoEviction = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
	// SafeToEvictVolumes is the cluster-autoscaler's: names of volumes, by commas, that hold nothing of value.
	SafeToEvictVolumes = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
)
