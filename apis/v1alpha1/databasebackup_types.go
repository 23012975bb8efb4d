// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DatabaseBackupMethod is the method by which a database is backed up.
//
// +kubebuilder:validation:Enum=Auto;Snapshot;Dump
type DatabaseBackupMethod string

const (
	// DatabaseBackupAuto is Snapshot if the driver of the volume has a VolumeSnapshotClass, otherwise Dump.
	DatabaseBackupAuto DatabaseBackupMethod = "Auto"
	// DatabaseBackupSnapshot creates a VolumeSnapshot of the volume of the database.
	DatabaseBackupSnapshot DatabaseBackupMethod = "Snapshot"
	// DatabaseBackupDump writes the output of pg_dump to a volume.
	DatabaseBackupDump DatabaseBackupMethod = "Dump"
)

// DatabaseBackupSettings are the settings of backups.
//
// +kubebuilder:validation:XValidation:rule="!has(self.verify) || !self.verify || self.method == 'Dump'",message="verify requires method Dump",fieldPath=".verify"
// +kubebuilder:validation:XValidation:rule="!has(self.encryptionSecretRef) || self.method == 'Dump'",message="encryptionSecretRef requires method Dump",fieldPath=".encryptionSecretRef"
type DatabaseBackupSettings struct {
	// method is the method of the backup: Auto, Snapshot or Dump. Defaults to Auto: Snapshot if the driver of the volume
	// has a VolumeSnapshotClass, otherwise Dump.
	//
	// +kubebuilder:default=Auto
	// +optional
	Method DatabaseBackupMethod `json:"method,omitempty"`

	// verify restores each dump into the scratch database berth_verify of the same server, counts its tables, and drops
	// it. The backup fails if the dump cannot be restored. It requires method Dump. Defaults to false.
	//
	// +optional
	Verify bool `json:"verify,omitempty"`

	// encryptionSecretRef is a Secret in the namespace of the Environment. Its key "key", one line of 16 to 512 bytes,
	// encrypts the dump, and is required to restore it. The image of the database must contain openssl. It requires
	// method Dump. Defaults to no encryption.
	//
	// +optional
	EncryptionSecretRef *EnvironmentSecret `json:"encryptionSecretRef,omitempty"`

	// storage describes the volume for dumps. It is used when the first dump of an Environment creates the
	// PersistentVolumeClaim, and ignored afterwards.
	//
	// +optional
	Storage *DatabaseBackupStorage `json:"storage,omitempty"`
}

// DatabaseBackupStorage describes the volume for dumps.
type DatabaseBackupStorage struct {
	// size is the size of the volume, a quantity such as 10Gi. Defaults to 10Gi.
	//
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="!self.matches('[eE].{4}') && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))",message="size must be a positive quantity such as 10Gi"
	// +kubebuilder:validation:XValidation:rule=`self.matches('[eE].{4}') || !isQuantity(self) || quantity(self).compareTo(quantity('1Pi')) <= 0`,message=`size must be at most 1Pi`
	// +optional
	Size string `json:"size,omitempty"`

	// storageClassName is the StorageClass of the volume. Defaults to the default StorageClass of the cluster.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	StorageClassName string `json:"storageClassName,omitempty"`
}

// DatabaseBackup is a backup of the database of an Environment. The data is deleted with it.
//
// +kubebuilder:object:root=true
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dbbackup,categories=berth
// +kubebuilder:selectablefield:JSONPath=`.spec.environment`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52",message="metadata.name must have at most 52 characters"
// +kubebuilder:printcolumn:name="Environment",type=string,JSONPath=`.spec.environment`
// +kubebuilder:printcolumn:name="Method",type=string,JSONPath=`.status.method`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.status.size`
// +kubebuilder:printcolumn:name="Verified",type=boolean,JSONPath=`.status.verified`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DatabaseBackup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired backup. It cannot be changed.
	//
	// +required
	Spec DatabaseBackupSpec `json:"spec"`

	// status is the observed state of the backup.
	//
	// +optional
	Status DatabaseBackupStatus `json:"status,omitempty"`
}

// DatabaseBackupSpec describes a backup.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec cannot be changed: create another DatabaseBackup"
type DatabaseBackupSpec struct {
	// environment is the name of the Environment, in the namespace of the DatabaseBackup.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Environment string `json:"environment"`

	DatabaseBackupSettings `json:",inline"`

	// image is the image of the Job of an encrypted dump that a DatabaseBackupSchedule creates. Only berth-environments sets it.
	// Defaults to the image that the database has when the DatabaseBackup is first observed.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Image string `json:"image,omitempty"`
}

// DatabaseBackupPhase is the phase of a backup or of a restore.
//
// +kubebuilder:validation:Enum=Pending;Running;Completed;Failed
type DatabaseBackupPhase string

const (
	// DatabaseBackupPending waits for what the message names.
	DatabaseBackupPending DatabaseBackupPhase = "Pending"
	// DatabaseBackupRunning is being made.
	DatabaseBackupRunning DatabaseBackupPhase = "Running"
	// DatabaseBackupCompleted ended without an error.
	DatabaseBackupCompleted DatabaseBackupPhase = "Completed"
	// DatabaseBackupFailed ended with the error in the message.
	DatabaseBackupFailed DatabaseBackupPhase = "Failed"
)

// Ended reports whether the phase is the last one.
func (p DatabaseBackupPhase) Ended() bool {
	return p == DatabaseBackupCompleted || p == DatabaseBackupFailed
}

// DatabaseBackupStatus is the observed state of a backup.
type DatabaseBackupStatus struct {
	DatabaseOperationStatus `json:",inline"`

	// method is the method that is used: Snapshot or Dump.
	//
	// +optional
	Method DatabaseBackupMethod `json:"method,omitempty"`

	// image is the image of the Job of the dump. The dump is also restored with it.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Image string `json:"image,omitempty"`

	// size is the size of the dump, or of the volume that the snapshot needs.
	//
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Size string `json:"size,omitempty"`

	// encrypted is true if the dump is encrypted.
	//
	// +optional
	Encrypted bool `json:"encrypted,omitempty"`

	// verified is true if the dump was restored into a scratch database.
	//
	// +optional
	Verified bool `json:"verified,omitempty"`

	// tables is the number of tables that the scratch database had.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	// +optional
	Tables *int64 `json:"tables,omitempty"`
}

// DatabaseOperationStatus is the observed state of a backup or of a restore.
type DatabaseOperationStatus struct {
	// phase is Pending, Running, Completed or Failed.
	//
	// +optional
	Phase DatabaseBackupPhase `json:"phase,omitempty"`

	// message is the error, or what the operation waits for.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// namespace is the namespace of the Job or of the VolumeSnapshot. Its name is that of this object.
	//
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// startedAt is when the Job or the VolumeSnapshot was created.
	//
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// completedAt is when the operation ended.
	//
	// +optional
	CompletedAt *metav1.Time `json:"completedAt,omitempty"`

	// observedGeneration is the metadata.generation that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions has the condition Completed: True when the operation ended without an error, False until then and after
	// an error.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DatabaseBackupList is a list of DatabaseBackups.
//
// +kubebuilder:object:root=true
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type DatabaseBackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the DatabaseBackups.
	Items []DatabaseBackup `json:"items"`
}

// DatabaseRestore replaces the data of the database of an Environment by a backup. What was written since the backup is
// lost. It is done once: a deletion undoes nothing.
//
// +kubebuilder:object:root=true
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dbrestore,categories=berth
// +kubebuilder:selectablefield:JSONPath=`.spec.environment`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52",message="metadata.name must have at most 52 characters"
// +kubebuilder:printcolumn:name="Environment",type=string,JSONPath=`.spec.environment`
// +kubebuilder:printcolumn:name="Backup",type=string,JSONPath=`.spec.backup`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DatabaseRestore struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired restore. It cannot be changed.
	//
	// +required
	Spec DatabaseRestoreSpec `json:"spec"`

	// status is the observed state of the restore.
	//
	// +optional
	Status DatabaseRestoreStatus `json:"status,omitempty"`
}

// DatabaseRestoreSpec describes a restore.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec cannot be changed: create another DatabaseRestore"
type DatabaseRestoreSpec struct {
	// environment is the name of the Environment whose data is replaced, in the namespace of the DatabaseRestore.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Environment string `json:"environment"`

	// backup is the name of a DatabaseBackup in the same namespace. A dump may be of another Environment, a snapshot is of
	// the same one.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Backup string `json:"backup"`

	// encryptionSecretRef is the Secret that the DatabaseBackup names as its encryptionSecretRef. It is required if the
	// dump is encrypted: whoever restores the dump must be allowed to get the Secret.
	//
	// +optional
	EncryptionSecretRef *EnvironmentSecret `json:"encryptionSecretRef,omitempty"`
}

// DatabaseRestoreStatus is the observed state of a restore.
type DatabaseRestoreStatus struct {
	DatabaseOperationStatus `json:",inline"`
}

// DatabaseRestoreList is a list of DatabaseRestores.
//
// +kubebuilder:object:root=true
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type DatabaseRestoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the DatabaseRestores.
	Items []DatabaseRestore `json:"items"`
}

// DatabaseBackupSchedule creates DatabaseBackups at times, and deletes the oldest. If it is deleted, they stay.
//
// +kubebuilder:object:root=true
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dbschedule,categories=berth
// +kubebuilder:selectablefield:JSONPath=`.spec.environment`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 36",message="metadata.name must have at most 36 characters"
// +kubebuilder:printcolumn:name="Environment",type=string,JSONPath=`.spec.environment`
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Suspend",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Current",type=string,JSONPath=`.status.conditions[?(@.type=="BackupCurrent")].status`
// +kubebuilder:printcolumn:name="Last-Backup",type=date,JSONPath=`.status.lastSuccessfulTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DatabaseBackupSchedule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired schedule.
	//
	// +required
	Spec DatabaseBackupScheduleSpec `json:"spec"`

	// status is the observed state of the schedule.
	//
	// +optional
	Status DatabaseBackupScheduleStatus `json:"status,omitempty"`
}

// DatabaseBackupScheduleSpec describes a schedule.
type DatabaseBackupScheduleSpec struct {
	// environment is the name of the Environment, in the namespace of the DatabaseBackupSchedule.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Environment string `json:"environment"`

	// schedule is the times of the backups in the format of cron, such as "0 3 * * *", or a macro such as @daily.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="!self.contains('TZ')",message="schedule cannot have a time zone: use timeZone"
	// +required
	Schedule string `json:"schedule"`

	// timeZone is the time zone of schedule, a name such as Europe/Berlin. Defaults to UTC.
	//
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TimeZone string `json:"timeZone,omitempty"`

	// suspend creates no more backups. Defaults to false.
	//
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// keep is the number of completed backups of this schedule that are kept, from 1 to 100. Older ones are deleted, with
	// their data. Of those that failed, the last three are kept. Defaults to 7.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=7
	// +optional
	Keep int32 `json:"keep,omitempty"`

	// maxAgeHours is the age in hours, from 1 to 8760, after which the last completed backup is too old: BackupCurrent is
	// False then, and the alert BerthDatabaseBackupOverdue fires. Defaults to the time until one scheduled backup was
	// missed and an hour has passed since the next one was due.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8760
	// +optional
	MaxAgeHours *int32 `json:"maxAgeHours,omitempty"`

	DatabaseBackupSettings `json:",inline"`
}

// DatabaseBackupScheduleStatus is the observed state of a schedule.
type DatabaseBackupScheduleStatus struct {
	// observedGeneration is the metadata.generation that this status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastScheduleTime is the last time for which a backup was created.
	//
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// lastSuccessfulTime is when the last completed backup was started.
	//
	// +optional
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`

	// lastBackup is the name of the last completed backup.
	//
	// +kubebuilder:validation:MaxLength=253
	// +optional
	LastBackup string `json:"lastBackup,omitempty"`

	// image is the image of the Jobs of encrypted dumps: the one that the database had when this generation of the
	// schedule was first observed. A later change of the Environment does not get the key.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Image string `json:"image,omitempty"`

	// conditions has the condition BackupCurrent: False if the last completed backup is too old, or if schedule or
	// timeZone cannot be used.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DatabaseBackupScheduleList is a list of DatabaseBackupSchedules.
//
// +kubebuilder:object:root=true
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type DatabaseBackupScheduleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the DatabaseBackupSchedules.
	Items []DatabaseBackupSchedule `json:"items"`
}

// Names about backups of databases.
const (
	// DatabaseBackupFinalizer prevents the deletion of a DatabaseBackup until its data is deleted.
	DatabaseBackupFinalizer = AnnotationPrefix + "/database-backup"
	// DatabaseRestoreFinalizer prevents the deletion of a DatabaseRestore that is running until its Job is deleted.
	DatabaseRestoreFinalizer = AnnotationPrefix + "/database-restore"
	// DatabaseScheduleLabel is on a DatabaseBackup that a DatabaseBackupSchedule created: the name of the schedule.
	DatabaseScheduleLabel = AnnotationPrefix + "/database-schedule"
	// DatabaseEncryptionKey is the key, in a Secret, of the key that encrypts dumps.
	DatabaseEncryptionKey = "key"

	// ConditionCompleted of a DatabaseBackup or a DatabaseRestore is True when it ended without an error.
	ConditionCompleted = "Completed"
	// ConditionBackupCurrent of a DatabaseBackupSchedule is False if the last completed backup is too old.
	ConditionBackupCurrent = "BackupCurrent"
)

// Reasons of the condition BackupCurrent.
const (
	// ReasonBackupCompleted: a backup completed in time.
	ReasonBackupCompleted = "BackupCompleted"
	// ReasonBackupNotDue: no backup completed yet, and the first one is not overdue.
	ReasonBackupNotDue = "BackupNotDue"
	// ReasonBackupTooOld: the last completed backup is too old, or none completed.
	ReasonBackupTooOld = "BackupTooOld"
	// ReasonInvalidSchedule: schedule or timeZone cannot be used, or encrypted dumps have no image.
	ReasonInvalidSchedule = "InvalidSchedule"
)
