// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import corev1 "k8s.io/api/core/v1"

// AnnotationPrefix is the prefix of Berth's annotations and labels, without the slash.
const AnnotationPrefix = "berth.dev"

// ServiceFieldManager is the field manager of what the gRPC and REST services write.
const ServiceFieldManager = "berth-services"

// Annotations that the scheduler adds to a pod in its Binding, so that the first watch event with the pod's node has
// them. A restarted scheduler rebuilds its ledger from them.
const (
	// SlotAnnotation is the number of the pod's slot in its group: a decimal integer from 0.
	SlotAnnotation = AnnotationPrefix + "/slot"

	// CapacityTypeAnnotation is the capacity type of the pod's slot: CapacityTypeSpot or CapacityTypeOnDemand. For a
	// borrowed pod, the capacity type of its node differs.
	CapacityTypeAnnotation = AnnotationPrefix + "/capacity-type"

	// MixAnnotation is a human-readable description of the source of the pod's mix: the name of a CapacityMix, or
	// another source.
	MixAnnotation = AnnotationPrefix + "/mix"

	// PodDeletionCostAnnotation is "-<slot>", so that a ReplicaSet that scales down removes the highest slots first. A
	// value that the user set is never changed. With spec.deletionCost Respect, Berth sets none.
	PodDeletionCostAnnotation = corev1.PodDeletionCost
)

// CapacityMixGate is the scheduling gate of pods that get their slot before they are scheduled, so that every
// autoscaler and every scheduler observes their capacity type: see docs/autoscalers.md. The leading berth-scheduler
// removes it.
const CapacityMixGate = AnnotationPrefix + "/capacity-mix"

// Annotations about the gate. The patch that removes it adds them to the pod, together with SlotAnnotation,
// CapacityTypeAnnotation, MixAnnotation and PodDeletionCostAnnotation.
const (
	// ClaimAnnotation is on a pod that got its slot before it had a node: "<UID of the pod>/<capacity type>". The
	// capacity type is the one that the pod is limited to, which differs from that of its slot after a fallback. For a
	// pod without a slot because no scheduler led, it is UngateReasonNoLeader. A value with the UID of another pod was
	// copied and is ignored.
	ClaimAnnotation = AnnotationPrefix + "/claim"

	// UngateReasonAnnotation is why a gate was removed without a slot: one of the UngateReason values.
	UngateReasonAnnotation = AnnotationPrefix + "/ungate-reason"

	// FallbackAnnotation is on a pod of a spot slot that is limited to on-demand nodes because no spot node came:
	// "<failures>/<time of the next attempt on spot, RFC 3339>".
	FallbackAnnotation = AnnotationPrefix + "/fallback"

	// UngatedAtAnnotation is on a pod that is limited to spot nodes: when its gate was removed, RFC 3339. Its wait for a node begins
	// then, also for a scheduler that comes to lead later.
	UngatedAtAnnotation = AnnotationPrefix + "/ungated-at"

	// DomainRequirementsAnnotation is on a pod whose mix has maxPerDomain: how many requirements of its node affinity, the last ones of
	// each term, the scheduler added for that. They are not those of its successor.
	DomainRequirementsAnnotation = AnnotationPrefix + "/domain-requirements"

	// QuarantineTermsAnnotation is on a pod whose mix has whenDomainInterrupted DoNotSchedule: how many terms its required node affinity
	// has, all of which the scheduler added to exclude interruption domains in quarantine. They are not those of its successor.
	QuarantineTermsAnnotation = AnnotationPrefix + "/quarantine-terms"
)

// Reasons for the removal of a gate without a slot, the values of UngateReasonAnnotation.
const (
	// UngateReasonNoLeader: no scheduler led for a while, and the controller removed the gate.
	UngateReasonNoLeader = "NoLeader"

	// UngateReasonNoMix: no mix governs the pod.
	UngateReasonNoMix = "NoMix"

	// UngateReasonNoLabel: no node label can limit pods to a capacity type.
	UngateReasonNoLabel = "NoLabel"

	// UngateReasonPinned: the pod itself selects a capacity type.
	UngateReasonPinned = "Pinned"
)

// MoveAnnotation is on the events about the moves of a workload: which replica is moved, from where and to where, and when that was
// decided and proven, as a JSON object.
const MoveAnnotation = AnnotationPrefix + "/move"

// BlockedReasonAnnotation is on the events about moves that are not made: the reason, as in the status of a CapacityMix.
const BlockedReasonAnnotation = AnnotationPrefix + "/blocked-reason"

// PlaceholderLabel is on placeholder pods: the UID of the replica for which they reserve capacity.
const PlaceholderLabel = AnnotationPrefix + "/placeholder"

// ReleasedAnnotation is on a replica that berth-controller has released from its ReplicaSet, for as long as it runs beside its
// replacement: its own UID, the UID of the ReplicaSet and the ID of the group that it left, joined by "/". A copy of it on another pod has
// no effect.
const ReleasedAnnotation = AnnotationPrefix + "/released"

// EvictionResponder is the name of Berth in spec.evictionResponders of pods (KEP-4563), and the label of the Evictions for which it is a
// responder. The webhook adds it to pods of mixes whose replicas are released before they go.
const EvictionResponder = AnnotationPrefix + "/surge"

// EvictionResponderPriority is the priority of EvictionResponder: below that of the controller that manages a pod (10000), so that an
// operator that names itself answers first, and above the imperative eviction (100), which is left if Berth does not release the pod.
const EvictionResponderPriority int32 = 5000

// EvictionRequester is the requester of the EvictionRequests that berth-controller creates (mix.rebalance.eviction: Request), and a label
// of their Evictions.
const EvictionRequester = AnnotationPrefix + "/rebalance"

// FloorLabel is on the replicas that run on on-demand nodes, with spec.protectFloor of a CapacityMix, and on the PodDisruptionBudget that
// selects them: a hash of their group.
const FloorLabel = AnnotationPrefix + "/floor"

// FloorGroupAnnotation is on a PodDisruptionBudget that has FloorLabel: the ID of the group.
const FloorGroupAnnotation = AnnotationPrefix + "/floor-group"

// FloorRecountAnnotation is on a PodDisruptionBudget that has FloorLabel: when its pods had to be counted again last, in RFC 3339, because
// one of them lost the label.
const FloorRecountAnnotation = AnnotationPrefix + "/floor-recount"

// DrainAnnotation is on a node that kubectl berth drain empties: when that began, in RFC 3339. The node counts as departing.
const DrainAnnotation = AnnotationPrefix + "/drain"

// Annotations by which users give a workload its mix without a CapacityMix, on a pod or on its controller.
const (
	// SpotPercentAnnotation is the percentage of replicas on spot nodes: an integer from 0 to 100, optionally with a
	// trailing "%".
	SpotPercentAnnotation = AnnotationPrefix + "/spot-percent"

	// MinOnDemandAnnotation is the number of replicas that stay on on-demand nodes: an integer from 0 to 1000000.
	MinOnDemandAnnotation = AnnotationPrefix + "/min-on-demand"

	// GroupAnnotation specifies which pods are divided together: "Controller" for the pods of one direct controller, "Top"
	// for those below one highest owner, or a name (at most 63 lower-case letters, digits or '-') for all pods of the
	// namespace with this name and the same mix.
	GroupAnnotation = AnnotationPrefix + "/group"
)

// AcceptedReplicasAnnotation is set by users, after they scaled down a workload whose owner does not report its
// replicas, on one of its pods: an integer from 0. The next move then requires only this number of Ready pods, even if
// there were more before.
const AcceptedReplicasAnnotation = AnnotationPrefix + "/accepted-replicas"

// EvictJobPodsAnnotation is set by users on a Job: "true" allows the controller to evict its pods if the Job's
// podFailurePolicy ignores disruptions. Without it, pods of Jobs are never evicted, because a Job counts them as
// failed.
const EvictJobPodsAnnotation = AnnotationPrefix + "/evict-job-pods"

// Annotations about a pause of moves. On a Namespace, they are about its workloads; on the ConfigMap berth-controller-pause in the
// namespace of berth-controller, about those of the cluster. On a CapacityMix, spec.rebalance.paused pauses its moves, and only the last
// three are used. `kubectl berth pause` sets them.
const (
	// PausedAnnotation stops the moves of replicas until it is removed: "true". "false" is as if it was not there; every other value
	// pauses moves as well.
	PausedAnnotation = AnnotationPrefix + "/paused"

	// PausedByAnnotation is the name of the user who paused the moves.
	PausedByAnnotation = AnnotationPrefix + "/paused-by"

	// PausedAtAnnotation is when the moves were paused, RFC 3339.
	PausedAtAnnotation = AnnotationPrefix + "/paused-at"

	// PausedReasonAnnotation is why the moves were paused, a text for people.
	PausedReasonAnnotation = AnnotationPrefix + "/paused-reason"
)

// PauseConfigMapSuffix ends the name of the ConfigMap whose PausedAnnotation pauses all moves of the cluster. The name begins with that of
// the lease of berth-controller.
const PauseConfigMapSuffix = "-pause"

// InterruptionsConfigMapSuffix ends the name of the ConfigMap with the interruptions of spot nodes, which berth-controller counts and
// berth-scheduler reads. The name begins like that of PauseConfigMapSuffix.
const InterruptionsConfigMapSuffix = "-interruptions"

// ResourceLimitLabel is on pods that use a ResourceLimit: its name, in the namespace of the pod.
const ResourceLimitLabel = AnnotationPrefix + "/resource-limit"

// Annotations about ResourceLimits.
const (
	// ResolvedLimitAnnotation is added to a pod by the webhook when it applies a ResourceLimit:
	// "<namespace>/<name>@<generation>".
	ResolvedLimitAnnotation = AnnotationPrefix + "/resolved-resource-limit"

	// ForceDeleteAnnotation on a ResourceLimit, with the value "true", allows it to be deleted while pods or workloads
	// use it.
	ForceDeleteAnnotation = AnnotationPrefix + "/force-delete"
)

// ResourceLimitFinalizer prevents the deletion of a ResourceLimit that pods or workloads use.
const ResourceLimitFinalizer = AnnotationPrefix + "/resource-limit-in-use"

// InjectLabel on a namespace, with the value "enabled", enables the webhook for pods that are created in it.
const InjectLabel = AnnotationPrefix + "/inject"

// Values of CapacityTypeAnnotation.
const (
	// CapacityTypeSpot is capacity that the provider may reclaim at short notice.
	CapacityTypeSpot = "spot"

	// CapacityTypeOnDemand is capacity that the provider does not reclaim.
	CapacityTypeOnDemand = "on-demand"
)
