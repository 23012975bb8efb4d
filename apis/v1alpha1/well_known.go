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

// CapacityMixGate is the scheduling gate of pods that are given their slot before they are scheduled, so that every
// autoscaler and every scheduler sees their capacity type: see docs/autoscalers.md. The leading berth-scheduler opens it.
const CapacityMixGate = AnnotationPrefix + "/capacity-mix"

// Annotations about the gate. They are put on a pod in the patch that opens it, together with SlotAnnotation,
// CapacityTypeAnnotation, MixAnnotation and PodDeletionCostAnnotation.
const (
	// ClaimAnnotation says that the pod was given its slot before it had a node: "<UID of the pod>/<capacity type>", where
	// the type is the one that the pod was limited to. It is the other one than that of its slot where it fell back. On a
	// pod that got no slot since no scheduler led, GateOpenedNoLeader stands for the type. A value with another pod's UID
	// was copied and says nothing.
	ClaimAnnotation = AnnotationPrefix + "/claim"

	// GateOpenedAnnotation says why a gate was opened without a slot: one of the GateOpened reasons.
	GateOpenedAnnotation = AnnotationPrefix + "/gate-opened"

	// FallbackAnnotation is on a pod with a spot slot that was limited to on-demand nodes, because spot nodes did not
	// come: "<failures>/<when spot is tried again, RFC 3339>".
	FallbackAnnotation = AnnotationPrefix + "/fallback"
)

// Reasons for which a gate is opened without a slot, the values of GateOpenedAnnotation.
const (
	// GateOpenedNoLeader: no scheduler led for a while, and the controller let the pod go.
	GateOpenedNoLeader = "NoLeader"

	// GateOpenedNoMix: no mix governs the pod.
	GateOpenedNoMix = "NoMix"

	// GateOpenedNoLabel: there is no node label by which pods could be limited to a capacity type.
	GateOpenedNoLabel = "NoLabel"

	// GateOpenedPinned: the pod names a capacity type itself.
	GateOpenedPinned = "Pinned"
)

// PlaceholderLabel is on the pods that hold room for a replica that is to move: the UID of that replica.
const PlaceholderLabel = AnnotationPrefix + "/placeholder"

// Annotations that users write, on a pod or on its controller, to give a workload its mix without a CapacityMix.
const (
	// SpotPercentAnnotation is the share of replicas on spot nodes: an integer from 0 to 100, a trailing "%" is allowed.
	SpotPercentAnnotation = AnnotationPrefix + "/spot-percent"

	// MinOnDemandAnnotation is the number of replicas that stay on on-demand nodes: an integer from 0 to 1000000.
	MinOnDemandAnnotation = AnnotationPrefix + "/min-on-demand"
)

// AcceptedReplicasAnnotation is written by users on a pod of a workload whose owner does not tell its replicas, after they
// scaled it down: an integer from 0. So many Ready pods are enough for the next move, however many there were before.
const AcceptedReplicasAnnotation = AnnotationPrefix + "/accepted-replicas"

// EvictJobPodsAnnotation is written by users on a Job: "true" lets the controller evict its pods, provided that the Job's
// podFailurePolicy ignores disruptions. Without it, pods of Jobs are never evicted, since a Job counts them as failed.
const EvictJobPodsAnnotation = AnnotationPrefix + "/evict-job-pods"

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
