// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Reasons of the events that Berth records. They are stable: alerts and scripts may match on them.
const (
	// EventReasonBorrowed (Normal, on the pod): the pod runs on the other capacity type than that of its slot, because no
	// node of the slot's type has free capacity and the mix allows it.
	EventReasonBorrowed = "Borrowed"

	// EventReasonBindSuccess (Normal, on the pod): the pod was bound. The message has the id of the decision, and the node.
	EventReasonBindSuccess = "BindSuccess"

	// EventReasonBindFailure (Warning, on the pod): a node was selected for the pod, and the pod was not bound to it. The
	// message has the id of the decision, the node and the reason. The scheduler tries again.
	EventReasonBindFailure = "BindFailure"

	// EventReasonInvalidMixAnnotation (Warning, on the pod): an annotation that configures the pod's mix is invalid. The
	// message names its key and value. The scheduler ignores the annotation.
	EventReasonInvalidMixAnnotation = "InvalidMixAnnotation"

	// EventReasonInvalidCapacityMix (Warning, on the CapacityMix): the object is invalid although the API server has
	// stored it, because the validation rules of the CRD are newer than the object or were removed. It governs no pod.
	EventReasonInvalidCapacityMix = "InvalidCapacityMix"

	// EventReasonTolerationsIgnored (Warning, on the CapacityMix): tolerations with the operators Gt and Lt are not added to
	// pods, because the feature gate TaintTolerationComparisonOperators is off in the scheduler.
	EventReasonTolerationsIgnored = "TolerationsIgnored"

	// EventReasonCapacityMixConflict (Warning, on the CapacityMix that does not apply): an older CapacityMix selects the
	// same pod and governs it.
	EventReasonCapacityMixConflict = "CapacityMixConflict"

	// EventReasonUngateFailed (Warning, on the pod): the API server rejected the patch that removes the pod's
	// scheduling gate. The message has its error. The scheduler retries.
	EventReasonUngateFailed = "UngateFailed"

	// EventReasonGateFailedOpen (Warning, on the pod): no scheduler held the lease for a while, and the controller removed
	// the pod's scheduling gate without a slot.
	EventReasonGateFailedOpen = "GateFailedOpen"

	// EventReasonSpotUnavailable (Warning, on the pod's controller, or on a pod that is not deleted): a pod that its
	// scheduling gate limited to spot nodes found no node within spotWaitSeconds, or an autoscaler reported that it launches none.
	EventReasonSpotUnavailable = "SpotUnavailable"

	// EventReasonMoved (Normal, on the workload): the controller evicted a replica that ran on the wrong capacity type.
	// Its replacement fits on a node of the right type.
	EventReasonMoved = "ReplicaMoved"

	// EventReasonReleased (Normal, on the workload): the controller released a replica from its ReplicaSet, because it runs on the
	// wrong capacity type, or on a node that its provider is about to reclaim. The replica runs until its replacement is available.
	EventReasonReleased = "ReplicaReleased"

	// EventReasonProvisioning (Normal, on the workload): no node has free capacity for the replacement of a replica on the
	// wrong capacity type, and the controller created a placeholder pod for which an autoscaler can launch a node.
	EventReasonProvisioning = "PlaceholderCreated"

	// EventReasonMoveFailed (Warning, on the workload): after an eviction, replicas did not become Ready in time or no
	// fewer of them run on the wrong capacity type, or a placeholder pod was not scheduled in time. The message has the
	// time of the next move.
	EventReasonMoveFailed = "MoveFailed"

	// EventReasonMoveBlocked (Normal, on the workload): a replica runs on the wrong capacity type and cannot move. The
	// message has the reason.
	EventReasonMoveBlocked = "MoveBlocked"

	// EventReasonAnnotationConflict (Warning, on the workload): another client repeatedly changes the slot, capacity type,
	// mix or deletion cost annotation of the workload's pods. Berth restores them at growing intervals.
	EventReasonAnnotationConflict = "AnnotationConflict"

	// EventReasonGatesMissing (Warning, on the CapacityMix): an autoscaler launches nodes, and pods of a governed workload
	// are created without the scheduling gate.
	EventReasonGatesMissing = "GatesMissing"

	// EventReasonDeletionCostsOverwritten (Warning, on the CapacityMix): another client, such as Karpenter with its feature
	// gate PodDeletionCostManagement, has overwritten the deletion costs of replicas. A scale-down is not exact until Berth
	// has restored them.
	EventReasonDeletionCostsOverwritten = "DeletionCostsOverwritten"

	// EventReasonDeletionBlocked (Warning, on the ResourceLimit): its deletion waits for the pods and workloads that the
	// message names. ForceDeleteAnnotation deletes it nevertheless.
	EventReasonDeletionBlocked = "DeletionBlocked"

	// EventReasonDeletionForced (Warning, on the ResourceLimit): it was deleted because of ForceDeleteAnnotation while the
	// pods and workloads that the message names used it.
	EventReasonDeletionForced = "DeletionForced"

	// EventReasonApplied (Normal, on the DeploymentRecord): objects were created or updated for it.
	EventReasonApplied = "Applied"

	// EventReasonPruned (Normal, on the DeploymentRecord): objects that it no longer requires were deleted.
	EventReasonPruned = "Pruned"

	// EventReasonProgressing (Normal, on the DeploymentRecord): its replicas are not ready yet.
	EventReasonProgressing = "Progressing"

	// EventReasonAvailable (Normal, on the DeploymentRecord): everything that it requires is ready.
	EventReasonAvailable = "Available"

	// EventReasonDegraded (Warning, on the DeploymentRecord): it cannot be deployed as configured. The message has the
	// reason. What was deployed before keeps running.
	EventReasonDegraded = "Degraded"

	// EventReasonTemplateFallback (Warning, on the DeploymentRecord): the template that it requests does not exist or
	// needs an API that cannot be used. Another one is used; the message has both.
	EventReasonTemplateFallback = "TemplateFallback"

	// EventReasonOrphanedResources (Warning, on the DeploymentRecord): it was deleted, and some of its objects could not
	// be deleted.
	EventReasonOrphanedResources = "OrphanedResources"

	// EventReasonNFRApplied (Normal, on the DeploymentRecord): a recommendation was applied.
	EventReasonNFRApplied = "NFRApplied"

	// EventReasonInvalidTemplate (Warning, on the DeploymentTemplate): it cannot be rendered. The message names the field.
	EventReasonInvalidTemplate = "InvalidTemplate"

	// EventReasonOrphaned (Warning, on an object of an Environment): the Environment no longer exists.
	EventReasonOrphaned = "Orphaned"

	// EventReasonOrphanDeleted (Normal, on an object of an Environment): it was deleted, because the Environment no longer
	// exists.
	EventReasonOrphanDeleted = "OrphanDeleted"

	// EventReasonBackupStarted (Normal, on the DatabaseBackup): its Job or VolumeSnapshot was created.
	EventReasonBackupStarted = "BackupStarted"

	// EventReasonBackupCompleted (Normal, on the DatabaseBackup): it can be restored.
	EventReasonBackupCompleted = "BackupCompleted"

	// EventReasonBackupFailed (Warning, on the DatabaseBackup): the message has the error.
	EventReasonBackupFailed = "BackupFailed"

	// EventReasonBackupLeft (Warning, on the DatabaseBackup): it was deleted, and its dump stays on a volume that was
	// retained, because the Environment no longer exists.
	EventReasonBackupLeft = "BackupLeft"

	// EventReasonRestoreStarted (Normal, on the DatabaseRestore): the data of the database is being replaced.
	EventReasonRestoreStarted = "RestoreStarted"

	// EventReasonRestoreCompleted (Normal, on the DatabaseRestore): the data of the database is that of the backup.
	EventReasonRestoreCompleted = "RestoreCompleted"

	// EventReasonRestoreFailed (Warning, on the DatabaseRestore): the message has the error.
	EventReasonRestoreFailed = "RestoreFailed"

	// EventReasonBackupOverdue (Warning, on the DatabaseBackupSchedule): the last completed backup is too old.
	EventReasonBackupOverdue = "BackupOverdue"

	// EventReasonEnvironmentPending (Normal, on the Environment): nothing has been created for it yet.
	EventReasonEnvironmentPending = "EnvironmentPending"

	// EventReasonEnvironmentCreating (Normal, on the Environment): its components are starting.
	EventReasonEnvironmentCreating = "EnvironmentCreating"

	// EventReasonEnvironmentRunning (Normal, on the Environment): every component is ready.
	EventReasonEnvironmentRunning = "EnvironmentRunning"

	// EventReasonEnvironmentUpdating (Normal, on the Environment): its components are being replaced.
	EventReasonEnvironmentUpdating = "EnvironmentUpdating"

	// EventReasonEnvironmentStopping (Normal, on the Environment): its components are being stopped.
	EventReasonEnvironmentStopping = "EnvironmentStopping"

	// EventReasonEnvironmentStopped (Normal, on the Environment): no component runs.
	EventReasonEnvironmentStopped = "EnvironmentStopped"

	// EventReasonEnvironmentFailed (Warning, on the Environment): it cannot run as configured, or did not start in time.
	EventReasonEnvironmentFailed = "EnvironmentFailed"

	// EventReasonEnvironmentDeleting (Normal, on the Environment): its objects are being deleted.
	EventReasonEnvironmentDeleting = "EnvironmentDeleting"
)
