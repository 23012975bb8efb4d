// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Reasons of the events that Berth records. They are stable: alerts and scripts may match on them.
const (
	// EventReasonBorrowed (Normal, on the pod): the pod was placed on the other capacity type than its slot's,
	// because its own had no room and the mix allows it.
	EventReasonBorrowed = "Borrowed"

	// EventReasonInvalidMixAnnotation (Warning, on the pod): an annotation that should give the pod's mix cannot be
	// read. The message names key and value; the pod is scheduled as if the annotation were absent.
	EventReasonInvalidMixAnnotation = "InvalidMixAnnotation"

	// EventReasonInvalidCapacityMix (Warning, on the CapacityMix): the scheduler cannot use the object, which means
	// that the validation rules of the CRD are older than the object or were removed. It governs no pod.
	EventReasonInvalidCapacityMix = "InvalidCapacityMix"

	// EventReasonCapacityMixConflict (Warning, on the CapacityMix that loses): an older CapacityMix selects the same
	// pod, and governs it.
	EventReasonCapacityMixConflict = "CapacityMixConflict"

	// EventReasonUngateFailed (Warning, on the pod): the API server refuses the patch that opens the pod's scheduling
	// gate. It is tried again; the message says why it was refused.
	EventReasonUngateFailed = "UngateFailed"

	// EventReasonGateFailedOpen (Warning, on the pod): no scheduler led for a while, and the controller opened the pod's
	// scheduling gate without a slot.
	EventReasonGateFailedOpen = "GateFailedOpen"

	// EventReasonSpotUnavailable (Warning, on the pod's controller, or on a pod that is not deleted): a pod that was
	// limited to spot by its scheduling gate found no node in the time that its mix allows.
	EventReasonSpotUnavailable = "SpotUnavailable"

	// EventReasonMoved (Normal, on the workload): the controller evicted a replica that ran on the wrong capacity type,
	// so that its replacement runs on the right one.
	EventReasonMoved = "ReplicaMoved"

	// EventReasonProvisioning (Normal, on the workload): no node has room for the replacement of a replica on the wrong
	// capacity type, and the controller created a placeholder pod that asks an autoscaler for it.
	EventReasonProvisioning = "PlaceholderCreated"

	// EventReasonMoveFailed (Warning, on the workload): after an eviction not all replicas became Ready in time, or as many
	// as before run on the wrong capacity type, or a placeholder pod did not come to hold the room for a move. The next move
	// waits for the time that the message names.
	EventReasonMoveFailed = "MoveFailed"

	// EventReasonMoveBlocked (Normal, on the workload): a replica should move, and the message says why it does not.
	EventReasonMoveBlocked = "MoveBlocked"

	// EventReasonAnnotationConflict (Warning, on the workload): another client changes the slot, capacity type, mix or
	// deletion cost that Berth keeps on the workload's pods again and again. Berth restores them less and less often.
	EventReasonAnnotationConflict = "AnnotationConflict"

	// EventReasonDeletionBlocked (Warning, on the ResourceLimit): it is to be deleted, and waits for the pods and
	// workloads that the message names. ForceDeleteAnnotation lets it go.
	EventReasonDeletionBlocked = "DeletionBlocked"

	// EventReasonDeletionForced (Warning, on the ResourceLimit): it was deleted, because of ForceDeleteAnnotation, while
	// the pods and workloads that the message names had it.
	EventReasonDeletionForced = "DeletionForced"

	// EventReasonApplied (Normal, on the DeploymentRecord): objects were made or changed for it.
	EventReasonApplied = "Applied"

	// EventReasonPruned (Normal, on the DeploymentRecord): objects were deleted that it does not request any more.
	EventReasonPruned = "Pruned"

	// EventReasonProgressing (Normal, on the DeploymentRecord): it waits for replicas to become ready.
	EventReasonProgressing = "Progressing"

	// EventReasonAvailable (Normal, on the DeploymentRecord): all that was requested answers.
	EventReasonAvailable = "Available"

	// EventReasonDegraded (Warning, on the DeploymentRecord): it cannot be deployed as configured. The message says why; what
	// was there before stays.
	EventReasonDegraded = "Degraded"

	// EventReasonOrphanedResources (Warning, on the DeploymentRecord): it was deleted although some of its objects did not go.
	EventReasonOrphanedResources = "OrphanedResources"

	// EventReasonNFRApplied (Normal, on the DeploymentRecord): a recommendation was applied.
	EventReasonNFRApplied = "NFRApplied"

	// EventReasonInvalidTemplate (Warning, on the DeploymentTemplate): it cannot be rendered. The message names the field.
	EventReasonInvalidTemplate = "InvalidTemplate"

	// EventReasonEnvironmentPending (Normal, on the Environment): nothing was made for it yet.
	EventReasonEnvironmentPending = "EnvironmentPending"

	// EventReasonEnvironmentCreating (Normal, on the Environment): it is being started.
	EventReasonEnvironmentCreating = "EnvironmentCreating"

	// EventReasonEnvironmentRunning (Normal, on the Environment): every component is ready.
	EventReasonEnvironmentRunning = "EnvironmentRunning"

	// EventReasonEnvironmentUpdating (Normal, on the Environment): components are being replaced.
	EventReasonEnvironmentUpdating = "EnvironmentUpdating"

	// EventReasonEnvironmentStopping (Normal, on the Environment): components are being stopped.
	EventReasonEnvironmentStopping = "EnvironmentStopping"

	// EventReasonEnvironmentStopped (Normal, on the Environment): no component runs.
	EventReasonEnvironmentStopped = "EnvironmentStopped"

	// EventReasonEnvironmentFailed (Warning, on the Environment): it cannot be run as configured, or did not start in time.
	EventReasonEnvironmentFailed = "EnvironmentFailed"

	// EventReasonEnvironmentDeleting (Normal, on the Environment): what was made for it is being removed.
	EventReasonEnvironmentDeleting = "EnvironmentDeleting"

	// EventReasonAudit (Normal, on the Environment, Warning where it was refused): someone called the gRPC service to change it. The message says
	// who, how, and what came of it.
	EventReasonAudit = "Audit"
)
