// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import corev1 "k8s.io/api/core/v1"

// AnnotationPrefix is the prefix of Berth's own annotations, without the slash.
const AnnotationPrefix = "berth.dev"

// Annotations that the scheduler puts on a pod, in the Binding itself, so that they are on the pod in the first
// watch event that shows its node. A restarted scheduler rebuilds its ledger from them.
const (
	// SlotAnnotation is the number of the slot the pod holds in its group: a decimal integer from 0.
	SlotAnnotation = AnnotationPrefix + "/slot"

	// CapacityTypeAnnotation is the capacity type of the pod's slot: CapacityTypeSpot or CapacityTypeOnDemand.
	// A borrowed pod keeps its slot's type here; the type it runs on is that of its node.
	CapacityTypeAnnotation = AnnotationPrefix + "/capacity-type"

	// MixAnnotation says where the pod's mix came from, as text for people: a CapacityMix by its name, or another source.
	MixAnnotation = AnnotationPrefix + "/mix"

	// PodDeletionCostAnnotation carries "-<slot>", so that a ReplicaSet that scales down removes the highest slots
	// first. A value the user set is never changed.
	PodDeletionCostAnnotation = corev1.PodDeletionCost
)

// Annotations that users write, on a pod or on its controller, to give a workload its mix without a CapacityMix.
const (
	// SpotPercentAnnotation is the share of replicas on spot nodes: an integer from 0 to 100, a trailing "%" is allowed.
	SpotPercentAnnotation = AnnotationPrefix + "/spot-percent"

	// MinOnDemandAnnotation is the number of replicas that stay on on-demand nodes: an integer from 0.
	MinOnDemandAnnotation = AnnotationPrefix + "/min-on-demand"
)

// ResourceLimitLabel is the label by which a pod names its size: the name of a ResourceLimit in its namespace.
const ResourceLimitLabel = AnnotationPrefix + "/resource-limit"

// Annotations about sizes.
const (
	// ResolvedLimitAnnotation is put on a pod by the webhook when it applied a ResourceLimit: "<namespace>/<name>@<generation>".
	ResolvedLimitAnnotation = AnnotationPrefix + "/resolved-resource-limit"

	// ForceDeleteAnnotation on a ResourceLimit, with the value "true", lets it be deleted while pods or workloads have it.
	ForceDeleteAnnotation = AnnotationPrefix + "/force-delete"
)

// ResourceLimitFinalizer keeps a ResourceLimit that pods or workloads have.
const ResourceLimitFinalizer = AnnotationPrefix + "/resource-limit-in-use"

// InjectLabel on a namespace, with the value "enabled", has the webhook look at the pods that are created in it.
const InjectLabel = AnnotationPrefix + "/inject"

// Values of CapacityTypeAnnotation.
const (
	// CapacityTypeSpot is capacity that the provider may take back at short notice.
	CapacityTypeSpot = "spot"

	// CapacityTypeOnDemand is capacity that stays until it is given back.
	CapacityTypeOnDemand = "on-demand"
)
