// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/kube/pods"
)

const (
	// backupTries is how often more a dump, or the deletion of one, is tried. A restore is not: its user examines the failure first.
	backupTries = 2
	// BackupDeadlineSeconds is how long a dump or a restore may take with all its tries.
	BackupDeadlineSeconds = 6 * 60 * 60
	// jobKeptSeconds is how long a Job is kept after its end: its log is there, and a controller that did not run can read the outcome.
	jobKeptSeconds = 7 * 24 * 60 * 60
	// backupUser runs it, and owns the dumps: the number that postgres has in the image of Debian. Neither needs a name or root,
	// whatever image it is.
	backupUser = 999
	// backupCPU and backupMemory are both request and limit, as the environment's own are.
	backupCPU, backupMemory = "500m", "512Mi"
	// connectTimeout is in seconds: a NetworkPolicy drops without an answer.
	connectTimeout = "30"

	backupsPath, keyPath     = "/backups", "/key"
	backupsVolume, keyVolume = "backups", "key"
	backupEnv                = "BACKUP"

	// TargetPasswordKey is the key of the password in the Secret of a restore into another environment.
	TargetPasswordKey = "password"
)

// DumpJob writes a dump of the database of an environment, which has one, to the claim of backups.
func DumpJob(e *v1alpha1.Environment, b *v1alpha1.DatabaseBackup) *batchv1.Job {
	encrypted := b.Spec.EncryptionSecretRef != nil
	script := dumpScript(encrypted, b.Spec.Verify)
	job := backupJob(ofBackup(e, b, ""), databaseTool(e.Spec.Stack.Database, ImageOf(b, e), b.Name, script, stack.Database), backupTries)
	if encrypted {
		mountKey(&job.Spec.Template.Spec, b.Name)
	}
	return job
}

// RestoreJob puts a dump of a source into the database of a target, which has one and may be the same. It runs where the dump is.
func RestoreJob(source, target *v1alpha1.Environment, r *v1alpha1.DatabaseRestore, b *v1alpha1.DatabaseBackup) *batchv1.Job {
	meta := backupMeta(source, r.Name)
	meta.Labels[componentLabel], meta.Labels[BackupOfLabel] = "database-restore", target.Name
	meta.Labels[RestoreLabel], meta.Labels[OperationNamespaceLabel] = r.Name, r.Namespace
	encrypted := b.Spec.EncryptionSecretRef != nil
	tool := databaseTool(target.Spec.Stack.Database, ImageOf(b, source), b.Name, restoreScript(encrypted), stack.Database)
	tool.VolumeMounts[0].ReadOnly = true
	if source.Status.Namespace != target.Status.Namespace {
		for i := range tool.Env {
			switch e := &tool.Env[i]; e.Name {
			case "PGHOST":
				e.Value = stack.Database + "." + target.Status.Namespace + ".svc"
			case "PGPASSWORD":
				e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Key = r.Name, TargetPasswordKey
			}
		}
	}
	job := backupJob(meta, tool, 0)
	if encrypted {
		mountKey(&job.Spec.Template.Spec, r.Name)
	}
	return job
}

// DeleteDumpJob deletes a dump from the claim of backups.
func DeleteDumpJob(e *v1alpha1.Environment, b *v1alpha1.DatabaseBackup) *batchv1.Job {
	tool := databaseTool(e.Spec.Stack.Database, e.Spec.Stack.Database.Container.Image, b.Name, deleteScript, "")
	return backupJob(ofBackup(e, b, "-delete"), tool, backupTries)
}

// OperationSecret has what a Job, which exists, needs and its namespace does not have. It is deleted when the Job has ended, and with
// the Job at the latest.
func OperationSecret(job *batchv1.Job, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name: job.Name, Namespace: job.Namespace, Labels: maps.Clone(job.Labels),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID}},
		},
		Type: corev1.SecretTypeOpaque, Data: data,
	}
}

// backupJob runs a tool with the claim of backups.
func backupJob(meta metav1.ObjectMeta, tool corev1.Container, tries int32) *batchv1.Job {
	pod := metav1.ObjectMeta{Labels: maps.Clone(meta.Labels), Annotations: map[string]string{
		// A dump that is moved starts again, and a restore is tried once.
		pods.DoNotDisrupt: "true", pods.SafeToEvict: "false",
	}}
	delete(pod.Labels, v1alpha1.EnvironmentLabel)
	delete(pod.Labels, v1alpha1.ComponentLabel)
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			BackoffLimit: &tries, ActiveDeadlineSeconds: new(int64(BackupDeadlineSeconds)),
			TTLSecondsAfterFinished: new(int32(jobKeptSeconds)),
			Template: corev1.PodTemplateSpec{ObjectMeta: pod, Spec: corev1.PodSpec{
				RestartPolicy:                corev1.RestartPolicyNever,
				AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
				SecurityContext: &corev1.PodSecurityContext{
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}, RunAsNonRoot: new(true),
					RunAsUser: new(int64(backupUser)), RunAsGroup: new(int64(backupUser)),
					// Without it a fresh volume is root's.
					FSGroup: new(int64(backupUser)), FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
				},
				Containers: []corev1.Container{tool},
				Volumes: []corev1.Volume{{Name: backupsVolume, VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: BackupsClaim},
				}}},
			}},
		},
	}
}

// mountKey mounts the key that encrypts dumps from a Secret.
func mountKey(pod *corev1.PodSpec, secret string) {
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: keyVolume, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{
			SecretName: secret, DefaultMode: new(int32(0o440)),
			Items: []corev1.KeyToPath{{Key: v1alpha1.DatabaseEncryptionKey, Path: v1alpha1.DatabaseEncryptionKey}},
		},
	}})
	tool := &pod.Containers[0]
	tool.VolumeMounts = append(tool.VolumeMounts, corev1.VolumeMount{Name: keyVolume, MountPath: keyPath, ReadOnly: true})
}

// ImageOf is the image that runs a backup of an environment and its restores, wherever to: that of the database when the
// backup was first observed, if it is encrypted, else when it began. Whoever changes an image later, or the one of another environment,
// must not get the key of a dump.
func ImageOf(b *v1alpha1.DatabaseBackup, source *v1alpha1.Environment) string {
	return cmp.Or(b.Status.Image, b.Spec.Image, source.Spec.Stack.Database.Container.Image)
}

// databaseTool runs a script about a backup with the tools of an image of a database: older ones cannot read a newer server. The
// password is that of a Secret; "" is for a script that does not connect.
func databaseTool(d *v1alpha1.DatabaseComponent, image, backup, script, password string) corev1.Container {
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(backupCPU), corev1.ResourceMemory: resource.MustParse(backupMemory)}
	env := []corev1.EnvVar{{Name: backupEnv, Value: backup}}
	if password != "" {
		env = append(env, []corev1.EnvVar{
			{Name: "PGAPPNAME", Value: "berth-backup"},
			{Name: "PGCONNECT_TIMEOUT", Value: connectTimeout},
			{Name: "PGDATABASE", Value: DatabaseName(d)},
			{Name: "PGHOST", Value: stack.Database},
			{Name: "PGPORT", Value: fmt.Sprint(portOf(d))},
			{Name: "PGUSER", Value: userOf(d)},
			{Name: "PGPASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: password}, Key: PostgresPassword,
			}}},
		}...)
	}
	return corev1.Container{
		Name: backupsVolume, Image: image, Command: []string{"/bin/sh", "-c", script}, Env: env,
		VolumeMounts: []corev1.VolumeMount{{Name: backupsVolume, MountPath: backupsPath}},
		Resources:    corev1.ResourceRequirements{Requests: size, Limits: size},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		// What the tools complain about last is why it failed.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}
