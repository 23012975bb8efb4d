// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/test/testenv"
)

const driver = "csi.example.com"

// csiVolume makes a volume of a driver, smaller than others, so that it is the one that a claim takes.
func (s *scene) csiVolume() {
	s.T.Helper()
	s.volumeOf("2Gi", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: s.Namespace}})
}

// stored is an environment whose database has a volume.
func stored(name string) *v1alpha1.Environment {
	e := environment(name)
	e.Spec.Stack.Database.PersistentStorage = true
	return e
}

// created returns the name of the object that a command creates.
func (s *scene) created(args ...string) string {
	s.T.Helper()
	_, name, _ := strings.Cut(strings.TrimSpace(s.berth("", append(args, "-o", "name")...)), "/")
	return name
}

// endJobs ends the pods of the Jobs of backups in a namespace whose names end so, as containers do that print a message.
func (s *scene) endJobs(namespace, suffix, message string) {
	s.T.Helper()
	for _, p := range s.Pods(client.InNamespace(namespace), client.HasLabels{render.BackupOfLabel}) {
		if p.Status.Phase == corev1.PodSucceeded || !strings.HasSuffix(p.Labels[batchv1.JobNameLabel], suffix) {
			continue
		}
		p.Status.Phase = corev1.PodSucceeded
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "backups", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Message: message},
		}}}
		if err := s.Client.Status().Update(s.Ctx, &p); !apierrors.IsConflict(err) {
			require.NoError(s.T, client.IgnoreNotFound(err))
		}
	}
}

// backup waits until a backup is as wanted.
func (s *scene) backup(name, what string, ok func(b *v1alpha1.DatabaseBackup) bool) *v1alpha1.DatabaseBackup {
	s.T.Helper()
	return testenv.WaitFor(s.World, name, what, ok)
}

// ends ends the Jobs in a namespace until an operation is completed.
func (s *scene) ends(namespace string, o client.Object, status *v1alpha1.DatabaseOperationStatus) {
	s.T.Helper()
	s.Eventually(o.GetName()+" is completed", func() (bool, string) {
		s.endJobs(namespace, "", "4096000\n12\n")
		err := s.Client.Get(s.Ctx, client.ObjectKeyFromObject(o), o)
		return err == nil && status.Phase == v1alpha1.DatabaseBackupCompleted, fmt.Sprint(status.Phase, status.Message, err)
	})
}

// secretOf waits for the Secret of a Job.
func (s *scene) secretOf(job *batchv1.Job) *corev1.Secret {
	s.T.Helper()
	return testenv.WaitForIn(s.World, job.Namespace, job.Name, "is the Job's", func(secret *corev1.Secret) bool {
		return len(secret.OwnerReferences) == 1 && secret.OwnerReferences[0].UID == job.UID
	})
}

// A dump is encrypted and verified, restored into another environment, and deleted with its DatabaseBackup.
func TestADatabaseIsDumpedRestoredAndDeleted(t *testing.T) {
	s := share(t)
	shop := stored("shop")
	shop.Spec.Network = &v1alpha1.EnvironmentNetwork{Isolated: true}
	shop, twin := s.runs(shop), s.runs(databaseOnly("twin"))
	s.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "backup-key"}, Data: map[string][]byte{"key": []byte("0123456789abcdef\n")}})
	name := s.created("env", "backup-database", "shop", "--method", "dump", "--verify", "--encryption-secret", "backup-key", "--size", "1Gi")
	b := s.backup(name, "is running", func(b *v1alpha1.DatabaseBackup) bool { return b.Status.Phase == v1alpha1.DatabaseBackupRunning })
	assert.Equal(t, shop.Status.Namespace, b.Status.Namespace)
	job := testenv.WaitForIn(s.World, shop.Status.Namespace, name, "is created", func(*batchv1.Job) bool { return true })
	assert.Equal(t, "postgres:17", job.Spec.Template.Spec.Containers[0].Image)
	assert.Equal(t, "0123456789abcdef", string(s.secretOf(job).Data["key"]))
	assert.Equal(t, []string{"database-backups", "database-data"}, s.names(shop, &corev1.PersistentVolumeClaimList{}))

	// The controller of Environments leaves alone what that makes, and the next backup waits for the volume.
	s.evaluateAgain("shop")
	s.seen("shop", "evaluated", func(*v1alpha1.Environment) bool { return true })
	require.Nil(t, in(s, shop, name, &batchv1.Job{}).DeletionTimestamp)
	second := &v1alpha1.DatabaseBackup{ObjectMeta: metav1.ObjectMeta{Name: "second"}}
	second.Spec.Environment, second.Spec.Method = "shop", v1alpha1.DatabaseBackupDump
	s.Create(second)
	waiting := s.backup("second", "waits", func(b *v1alpha1.DatabaseBackup) bool { return b.Status.Phase == v1alpha1.DatabaseBackupPending })
	assert.Equal(t, "Job "+shop.Status.Namespace+"/"+name+" is running", waiting.Status.Message)
	s.Delete(second)
	s.WaitDeleted(second)

	s.ends(shop.Status.Namespace, b, &b.Status.DatabaseOperationStatus)
	assert.Equal(t, "4000Ki", b.Status.Size)
	assert.True(t, b.Status.Verified)
	assert.True(t, b.Status.Encrypted)
	assert.EqualValues(t, 12, *b.Status.Tables)
	assert.True(t, meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionCompleted))
	s.WaitDeleted(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: shop.Status.Namespace, Name: name}})
	assert.Contains(t, s.berth("", "env", "database-backups", "shop"), "Completed")

	r := &v1alpha1.DatabaseRestore{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Namespace, Name: s.created("env", "restore-database", "twin", "--from", name, "--confirm"),
	}}
	job = testenv.WaitForIn(s.World, shop.Status.Namespace, r.Name, "is created", func(*batchv1.Job) bool { return true })
	secret := s.secretOf(job)
	assert.Equal(t, s.password(twin), string(secret.Data[render.TargetPasswordKey]))
	assert.Equal(t, "0123456789abcdef", string(secret.Data["key"]))
	assert.Equal(t, "twin", job.Spec.Template.Labels[render.BackupOfLabel])
	s.ends(shop.Status.Namespace, r, &r.Status.DatabaseOperationStatus)
	s.WaitDeleted(secret)
	s.Eventually("a restore that has ended can be deleted by anyone", func() (bool, string) {
		err := s.Client.Get(s.Ctx, client.ObjectKeyFromObject(r), r)
		return err == nil && len(r.Finalizers) == 0, fmt.Sprint(r.Finalizers, err)
	})

	// The password of another database does not outlive what needs it.
	cancelled := &v1alpha1.DatabaseRestore{ObjectMeta: metav1.ObjectMeta{Name: "cancelled"}}
	cancelled.Spec = v1alpha1.DatabaseRestoreSpec{
		Environment: "twin", Backup: name, EncryptionSecretRef: &v1alpha1.EnvironmentSecret{Name: "backup-key"},
	}
	s.Create(cancelled)
	job = testenv.WaitForIn(s.World, shop.Status.Namespace, "cancelled", "is created", func(*batchv1.Job) bool { return true })
	secret = s.secretOf(job)
	s.Delete(cancelled)
	for _, gone := range []client.Object{cancelled, job, secret} {
		s.WaitDeleted(gone)
	}

	s.Delete(b)
	s.Eventually("the dump is deleted", func() (bool, string) {
		s.endJobs(shop.Status.Namespace, "", "")
		err := s.Client.Get(s.Ctx, client.ObjectKeyFromObject(b), b)
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	for _, left := range []string{name, name + "-delete"} {
		s.WaitDeleted(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: shop.Status.Namespace, Name: left}})
	}
}

// databaseOnly is an environment with a database only.
func databaseOnly(name string) *v1alpha1.Environment {
	e := environment(name)
	e.Spec.Stack = v1alpha1.ApplicationStack{Database: e.Spec.Stack.Database}
	return e
}

// A schedule creates backups, keeps the last, and its backups go with the data of their environment.
func TestBackupsOfADatabaseAreScheduled(t *testing.T) {
	s := share(t)
	e := s.runs(stored("shop"))
	s.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "backup-key"}, Data: map[string][]byte{"key": []byte("0123456789abcdef")}})
	s.Tool(cluster.Kubectl, "--namespace", s.Namespace, "apply", "-f", "manifests/samples/backup-schedule.yaml")
	schedule := testenv.Read(s.World, "nightly", &v1alpha1.DatabaseBackupSchedule{})
	testenv.Patch(s.World, schedule, func(x *v1alpha1.DatabaseBackupSchedule) { x.Spec.Schedule, x.Spec.Keep = "@every 1s", 1 })
	of := client.MatchingLabels{v1alpha1.DatabaseScheduleLabel: "nightly"}
	seen, oldest := map[string]bool{}, ""
	s.Eventually("three backups were completed, and the first is deleted", func() (bool, string) {
		s.endJobs(e.Status.Namespace, "", "100\n")
		there := false
		for _, b := range testenv.List(s.World, &v1alpha1.DatabaseBackupList{}, of).Items {
			if b.Status.Phase == v1alpha1.DatabaseBackupCompleted {
				seen[b.Name] = true
				if oldest == "" {
					oldest = b.Name
				}
			}
			there = there || b.Name == oldest
		}
		return len(seen) > 2 && !there, fmt.Sprint(seen, there)
	})
	testenv.Patch(s.World, schedule, func(x *v1alpha1.DatabaseBackupSchedule) { x.Spec.Suspend = true })
	now := testenv.WaitFor(s.World, "nightly", "has the last backup", func(x *v1alpha1.DatabaseBackupSchedule) bool { return x.Status.LastBackup != "" })
	assert.True(t, meta.IsStatusConditionTrue(now.Status.Conditions, v1alpha1.ConditionBackupCurrent))
	assert.NotNil(t, now.Status.LastSuccessfulTime)

	testenv.Patch(s.World, schedule, func(x *v1alpha1.DatabaseBackupSchedule) { x.Spec.Schedule = "61 * * * *" })
	now = testenv.WaitFor(s.World, "nightly", "is not current", func(x *v1alpha1.DatabaseBackupSchedule) bool {
		return meta.IsStatusConditionFalse(x.Status.Conditions, v1alpha1.ConditionBackupCurrent)
	})
	assert.Contains(t, now.Status.Conditions[0].Message, `spec.schedule: "61 * * * *" is not a schedule`)
	s.WaitEvent("nightly", "it is overdue", func(e *corev1.Event) bool { return e.Reason == v1alpha1.EventReasonBackupOverdue })

	// One that runs when its environment is deleted ends, too.
	testenv.Patch(s.World, schedule, func(x *v1alpha1.DatabaseBackupSchedule) { x.Spec.Schedule, x.Spec.Suspend = "@every 1s", false })
	s.Eventually("one is running", func() (bool, string) {
		s.endJobs(e.Status.Namespace, "-delete", "") // of one that is no longer kept, for which the next waits
		all := testenv.List(s.World, &v1alpha1.DatabaseBackupList{}, of).Items
		return slices.ContainsFunc(all, func(b v1alpha1.DatabaseBackup) bool { return b.Status.Phase == v1alpha1.DatabaseBackupRunning }), fmt.Sprint(all)
	})
	s.Delete(schedule)
	s.Delete(e)
	s.Eventually("no backup of what is gone is left", func() (bool, string) {
		left := s.Names(&v1alpha1.DatabaseBackupList{}, of)
		return len(left) == 0, fmt.Sprint(left)
	})
}

// A backup that cannot work is refused, or waits with a message of what it waits for.
func TestABackupReportsWhatItWaitsFor(t *testing.T) {
	s := share(t)
	s.runs(databaseOnly("shop"))
	s.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "short"}, Data: map[string][]byte{"key": []byte("short")}})
	for name, c := range map[string]struct {
		environment, secret, want string
	}{
		"none":  {"unknown", "", "Environment unknown does not exist"},
		"key":   {"shop", "short", `spec.encryptionSecretRef: key "key" of Secret short has 5 bytes: it must have 16 to 512`},
		"nokey": {"shop", "nowhere", "spec.encryptionSecretRef: Secret nowhere does not exist"},
	} {
		b := &v1alpha1.DatabaseBackup{ObjectMeta: metav1.ObjectMeta{Name: name}}
		b.Spec.Environment, b.Spec.Method = c.environment, v1alpha1.DatabaseBackupDump
		if c.secret != "" {
			b.Spec.EncryptionSecretRef = &v1alpha1.EnvironmentSecret{Name: c.secret}
		}
		s.Create(b)
		s.backup(name, c.want, func(b *v1alpha1.DatabaseBackup) bool {
			return b.Status.Phase == v1alpha1.DatabaseBackupPending && b.Status.Message == c.want
		})
	}
	r := &v1alpha1.DatabaseRestore{ObjectMeta: metav1.ObjectMeta{Name: "early"}, Spec: v1alpha1.DatabaseRestoreSpec{Environment: "shop", Backup: "key"}}
	s.Create(r)
	testenv.WaitFor(s.World, "early", "waits for the backup", func(r *v1alpha1.DatabaseRestore) bool {
		return r.Status.Message == "spec.backup: DatabaseBackup key is not completed"
	})
	for want, change := range map[string]func(b *v1alpha1.DatabaseBackup){
		"verify requires method Dump":              func(b *v1alpha1.DatabaseBackup) { b.Spec.Verify = true },
		"encryptionSecretRef requires method Dump": func(b *v1alpha1.DatabaseBackup) { b.Spec.EncryptionSecretRef = &v1alpha1.EnvironmentSecret{Name: "x"} },
		"size must be a positive quantity":         func(b *v1alpha1.DatabaseBackup) { b.Spec.Storage = &v1alpha1.DatabaseBackupStorage{Size: "-1Gi"} },
		"metadata.name must have at most 52":       func(b *v1alpha1.DatabaseBackup) { b.Name = strings.Repeat("x", 53) },
	} {
		b := &v1alpha1.DatabaseBackup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "refused"}}
		b.Spec.Environment = "shop"
		change(b)
		require.ErrorContains(t, s.Client.Create(s.Ctx, b), want)
	}
	b := testenv.Read(s.World, "none", &v1alpha1.DatabaseBackup{})
	before := b.DeepCopy()
	b.Spec.Environment = "shop"
	require.ErrorContains(t, s.Client.Patch(s.Ctx, b, client.MergeFrom(before)), "spec cannot be changed")
}

// A snapshot takes the place of what a stopped database has, and the controller takes over the claim that is made of it.
func TestADatabaseIsRestoredFromASnapshot(t *testing.T) {
	s := start(t)
	s.csiVolume()
	s.serveKinds("snapshots.yaml", "volumesnapshots."+render.SnapshotKind.Group, "volumesnapshotclasses."+render.SnapshotKind.Group)
	class := &unstructured.Unstructured{Object: map[string]any{"driver": driver, "deletionPolicy": "Delete"}}
	class.SetGroupVersionKind(render.SnapshotClassKind)
	class.SetName("fast")
	s.Succeeds("snapshots are served", func() error { return s.Client.Create(s.Ctx, class.DeepCopy()) })
	e := s.runs(stored("shop"))
	before := s.claim(e)

	name := s.created("env", "backup-database", "shop")
	snapshot := &unstructured.Unstructured{}
	snapshot.SetGroupVersionKind(render.SnapshotKind)
	s.Succeeds("the snapshot is created", func() error {
		return s.Client.Get(s.Ctx, client.ObjectKey{Namespace: e.Status.Namespace, Name: name}, snapshot)
	})
	require.NoError(t, unstructured.SetNestedMap(snapshot.Object, map[string]any{"readyToUse": true, "restoreSize": "1Gi"}, "status")) // as its controller does
	require.NoError(t, s.Client.Status().Update(s.Ctx, snapshot))
	b := s.backup(name, "is completed", func(b *v1alpha1.DatabaseBackup) bool { return b.Status.Phase == v1alpha1.DatabaseBackupCompleted })
	assert.Equal(t, v1alpha1.DatabaseBackupSnapshot, b.Status.Method)
	s.berth("", "env", "stop", "shop", "--wait")
	s.berth("", "env", "restore-database", "shop", "--from", name, "--confirm", "--wait", "--timeout", time.Minute.String())

	after := s.claim(e)
	assert.NotEqual(t, before.UID, after.UID)
	require.NotNil(t, after.Spec.DataSource)
	assert.Equal(t, name, after.Spec.DataSource.Name)
	e = s.seen("shop", "the controller finds what it needs in it", func(e *v1alpha1.Environment) bool {
		return condition(e, v1alpha1.ConditionDegraded).Status == metav1.ConditionFalse
	})
	s.Always(2*time.Second, "the claim stays", func() (bool, string) {
		c := s.claim(e)
		return c.UID == after.UID && c.DeletionTimestamp == nil, string(c.UID)
	})
	s.Delete(b)
	s.WaitDeleted(b)
	s.WaitDeleted(snapshot)
}
