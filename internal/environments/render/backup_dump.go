// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/disruption"
)

const (
	// backupTries is how often more a dump is tried. A restore is not: whoever requested it looks first.
	backupTries = 2
	// backupDeadline is how long a dump or a restore may take with all its tries, in seconds.
	backupDeadline = 6 * 60 * 60
	// backupUser runs it, and owns the dumps: the number that postgres has in the image of Debian. Neither needs a name or root,
	// whatever image it is.
	backupUser = 999
	// backupCPU and backupMemory are requested and limited alike, as the environment's own are.
	backupCPU, backupMemory = "500m", "512Mi"
	// connectTimeout is in seconds: a NetworkPolicy drops without an answer.
	connectTimeout = "30"

	backupsPath   = "/backups"
	backupsVolume = "backups"
	backupEnv     = "BACKUP"
)

// dumpScript writes a dump, and gives it its name once it is whole and can be read. Who and where is in the variables of libpq,
// so that no name needs quotes. The size is what the pod says at its end.
const dumpScript = `set -eu
umask 077
file="` + backupsPath + `/$` + backupEnv + `.dump"
trap 'rm -f "$file.partial"' EXIT
pg_dump --format=custom --no-owner --no-password --file="$file.partial"
pg_restore --list "$file.partial" >/dev/null
mv -f "$file.partial" "$file"
wc -c <"$file" >/dev/termination-log || true
`

// restoreScript puts back all of a dump or nothing. --dbname is only there to have it connect: which database it is, is in PGDATABASE,
// where a name with "=" in it is a name.
const restoreScript = `set -eu
file="` + backupsPath + `/$` + backupEnv + `.dump"
if [ ! -f "$file" ]; then
	echo "there is no $file in the claim ` + BackupsClaim + `" >&2
	exit 1
fi
pg_restore --clean --if-exists --no-owner --single-transaction --exit-on-error --no-password --dbname="application_name=$PGAPPNAME" "$file"
`

// DumpJob writes a dump of the database of an environment, which has one, to the claim of backups.
func DumpJob(e *v1alpha1.Environment, name string) *batchv1.Job {
	return databaseJob(e, backupMeta(e, name), name, dumpScript, backupTries)
}

// RestoreJob puts the dump of a backup back into the database of an environment, which has one.
func RestoreJob(e *v1alpha1.Environment, name, backup string) *batchv1.Job {
	meta := backupMeta(e, name)
	meta.Labels[componentLabel], meta.Labels[RestoredFromLabel] = "database-restore", backup
	job := databaseJob(e, meta, backup, restoreScript, 0)
	job.Spec.Template.Spec.Containers[0].VolumeMounts[0].ReadOnly = true
	return job
}

// databaseJob runs a script with the tools of the database's own image: older ones cannot read a newer server. It stays when it
// is done: it is the record of what was done.
func databaseJob(e *v1alpha1.Environment, meta metav1.ObjectMeta, backup, script string, tries int32) *batchv1.Job {
	pod := metav1.ObjectMeta{Labels: map[string]string{}, Annotations: map[string]string{
		// A dump that is moved starts again, and a restore is tried once.
		disruption.DoNotDisrupt: "true", disruption.SafeToEvict: "false",
	}}
	maps.Copy(pod.Labels, meta.Labels)
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			BackoffLimit: &tries, ActiveDeadlineSeconds: new(int64(backupDeadline)),
			Template: corev1.PodTemplateSpec{ObjectMeta: pod, Spec: corev1.PodSpec{
				RestartPolicy:                corev1.RestartPolicyNever,
				AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
				SecurityContext: &corev1.PodSecurityContext{
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}, RunAsNonRoot: new(true),
					RunAsUser: new(int64(backupUser)), RunAsGroup: new(int64(backupUser)),
					// Without it a fresh volume is root's.
					FSGroup: new(int64(backupUser)), FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
				},
				Containers: []corev1.Container{databaseTool(e.Spec.Stack.Database, backup, script)},
				Volumes: []corev1.Volume{{Name: backupsVolume, VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: BackupsClaim},
				}}},
			}},
		},
	}
}

// databaseTool is the container that runs a script about a backup.
func databaseTool(d *v1alpha1.DatabaseComponent, backup, script string) corev1.Container {
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(backupCPU), corev1.ResourceMemory: resource.MustParse(backupMemory)}
	return corev1.Container{
		Name: backupsVolume, Image: d.Container.Image, Command: []string{"/bin/sh", "-c", script},
		Env: []corev1.EnvVar{
			{Name: backupEnv, Value: backup},
			{Name: "PGAPPNAME", Value: "berth-backup"},
			{Name: "PGCONNECT_TIMEOUT", Value: connectTimeout},
			{Name: "PGDATABASE", Value: DatabaseName(d)},
			{Name: "PGHOST", Value: Database},
			{Name: "PGPORT", Value: fmt.Sprint(portOf(d))},
			{Name: "PGUSER", Value: userOf(d)},
			{Name: "PGPASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: Database}, Key: PostgresPassword,
			}}},
		},
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
