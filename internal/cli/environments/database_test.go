// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/clitest"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/render"
)

// databaseOfStore is what the controller has made of the store's database, on a volume of a CSI driver.
func databaseOfStore(t *testing.T) []client.Object {
	t.Helper()
	var out []client.Object
	in := &render.Input{Environment: store(), Settings: render.Settings{VolumeSize: "1Gi"}, Namespace: "env-store", Own: true, OpenStages: render.Stages}
	for _, o := range render.Render(in) {
		switch o := o.(type) {
		case *appsv1.StatefulSet:
			out = append(out, o)
		case *corev1.PersistentVolumeClaim:
			o.UID, o.Spec.VolumeName, o.Status.Phase = "old", "pv-1", corev1.ClaimBound
			o.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes", v1alpha1.RenderedAnnotation: "x"}
			out = append(out, o)
		}
	}
	require.Len(t, out, 2)
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "disk.csi.example", VolumeHandle: "1"}
	return append(out, volume)
}

func snapshotClass(name, driver string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"driver": driver}}
	u.SetGroupVersionKind(render.SnapshotClassKind)
	u.SetName(name)
	return u
}

// snapshotOf is a VolumeSnapshot of the store that stands so.
func snapshotOf(name string, status map[string]any) *unstructured.Unstructured {
	e := store()
	u := render.Snapshot(e, name, "database-data", "fast")
	u.Object["status"] = status
	u.SetCreationTimestamp(clitest.Ago(2 * time.Hour))
	return u
}

// dumpOf is the Job of a dump of the store, and its pod, which said something at its end.
func dumpOf(name string, end batchv1.JobConditionType, said string) []client.Object {
	job := render.DumpJob(store(), name)
	job.CreationTimestamp = clitest.Ago(time.Hour)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: name + "-x", Labels: map[string]string{
		batchv1.JobNameLabel: name, render.BackupOfLabel: "store-1a2b",
	}}}
	code := int32(1)
	if end == batchv1.JobComplete {
		code, pod.Status.Phase = 0, corev1.PodSucceeded
	}
	if end != "" {
		job.Status.Conditions = []batchv1.JobCondition{{Type: end, Status: corev1.ConditionTrue, Message: "it was tried 3 times"}}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: said}}}}
	return []client.Object{job, pod}
}

// noSnapshots is a cluster that does not serve their API.
func noSnapshots() interceptor.Funcs {
	return interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if kind := list.GetObjectKind().GroupVersionKind(); kind.Group == render.SnapshotKind.Group {
			return &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{"v1"}}
		}
		return c.List(ctx, list, opts...)
	}}
}

func asAuto() *backupDatabaseFlags {
	return &backupDatabaseFlags{method: "auto", size: "10Gi", dryRun: command.DryRunNone, waitFlags: waitFlags{timeout: time.Minute, poll: time.Millisecond}}
}

// backUp backs up the store, and returns what is said.
func backUp(t *testing.T, c client.Client, f *backupDatabaseFlags, output string) (string, string, error) {
	t.Helper()
	o, out, errOut := clitest.Screen(output)
	err := backupDatabase(t.Context(), o, c, reread(t, c), f)
	return out.String(), errOut.String(), err
}

func there(t *testing.T, c client.Client, object client.Object, name string) bool {
	t.Helper()
	err := c.Get(t.Context(), client.ObjectKey{Namespace: "env-store", Name: name}, object)
	require.NoError(t, client.IgnoreNotFound(err))
	return err == nil
}

const theBackup = "database-20260701-120000"

// Where the driver of the volume has snapshots, one is made of the claim that the database has its data on.
func TestADatabaseIsSnapshottedWhereItCanBe(t *testing.T) {
	c := envCluster(t, interceptor.Funcs{}, append(databaseOfStore(t), store(), snapshotClass("fast", "disk.csi.example"), snapshotClass("a", "other"))...)
	out, errOut, err := backUp(t, c, asAuto(), "table")
	require.NoError(t, err)
	assert.Equal(t, "volumesnapshot.snapshot.storage.k8s.io/"+theBackup+" created\n", out)
	assert.Equal(t, "Backup by snapshot: claim database-data has driver disk.csi.example, which has VolumeSnapshotClass fast.\n", errOut)
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(render.SnapshotKind)
	require.True(t, there(t, c, u, theBackup))
	assert.Equal(t, map[string]any{"source": map[string]any{"persistentVolumeClaimName": "database-data"}, "volumeSnapshotClassName": "fast"}, u.Object["spec"])
	assert.Equal(t, "store-1a2b", u.GetLabels()[render.BackupOfLabel])
	assert.False(t, there(t, c, &batchv1.Job{}, theBackup))

	_, _, err = backUp(t, c, asAuto(), "table")
	require.EqualError(t, err, "VolumeSnapshot env-store/"+theBackup+" already exists")
}

// Elsewhere it is dumped, and it is said why.
func TestADatabaseIsDumpedWhereThereAreNoSnapshots(t *testing.T) {
	change := func(f func(all []client.Object)) []client.Object {
		all := append(databaseOfStore(t), snapshotClass("fast", "disk.csi.example"))
		f(all)
		return all
	}
	forbidden := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if _, is := obj.(*corev1.PersistentVolume); is {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumes"}, key.Name, nil)
		}
		return c.Get(ctx, key, obj, opts...)
	}}
	for why, tc := range map[string]struct {
		funcs   interceptor.Funcs
		objects []client.Object
	}{
		"the API server does not serve snapshot.storage.k8s.io/v1":           {noSnapshots(), change(func([]client.Object) {})},
		"no VolumeSnapshotClass is for driver disk.csi.example":              {interceptor.Funcs{}, append(databaseOfStore(t), snapshotClass("a", "other"))},
		"you are not allowed to read PersistentVolume pv-1":                  {forbidden, change(func([]client.Object) {})},
		"StatefulSet env-store/database does not exist":                      {interceptor.Funcs{}, nil},
		"PersistentVolumeClaim env-store/database-data does not exist":       {interceptor.Funcs{}, withoutClaims(databaseOfStore(t))},
		"the data of the database is not on a volume claim":                  {interceptor.Funcs{}, change(withoutVolumes)},
		"PersistentVolume pv-1 has no CSI driver":                            {interceptor.Funcs{}, change(ofTheNode)},
		"claim database-data is Pending":                                     {interceptor.Funcs{}, change(unbound)},
		`StatefulSet env-store/database belongs to another environment: its`: {interceptor.Funcs{}, change(ofAnother)},
	} {
		t.Run(why, func(t *testing.T) {
			c := envCluster(t, tc.funcs, append(tc.objects, store())...)
			out, errOut, err := backUp(t, c, asAuto(), "table")
			require.NoError(t, err)
			assert.Equal(t, "persistentvolumeclaim/database-backups created\njob.batch/"+theBackup+" created\n", out)
			assert.Contains(t, errOut, "Backup by dump: no snapshot is possible: "+why)
			job, claim := &batchv1.Job{}, &corev1.PersistentVolumeClaim{}
			require.True(t, there(t, c, job, theBackup))
			require.True(t, there(t, c, claim, render.BackupsClaim))
			assert.Equal(t, "10Gi", claim.Spec.Resources.Requests.Storage().String())
			assert.Nil(t, claim.Spec.StorageClassName)

			f := asAuto()
			f.method = "snapshot"
			_, _, err = backUp(t, c, f, "table")
			require.ErrorContains(t, err, "environment.berth.dev/store-1a2b: no snapshot is possible: "+why)
		})
	}
}

func is[T client.Object](o client.Object) bool {
	_, is := o.(T)
	return is
}

// one is the object of a type.
func one[T client.Object](all []client.Object) T { return all[slices.IndexFunc(all, is[T])].(T) }

func withoutClaims(all []client.Object) []client.Object {
	return slices.DeleteFunc(all, is[*corev1.PersistentVolumeClaim])
}

func withoutVolumes(all []client.Object) {
	one[*appsv1.StatefulSet](all).Spec.Template.Spec.Volumes = nil
}

func ofAnother(all []client.Object) {
	one[*appsv1.StatefulSet](all).Labels = map[string]string{v1alpha1.EnvironmentLabel: "x"}
}

func ofTheNode(all []client.Object) { one[*corev1.PersistentVolume](all).Spec.CSI = nil }

func unbound(all []client.Object) {
	one[*corev1.PersistentVolumeClaim](all).Status.Phase = corev1.ClaimPending
}

func TestTheClaimOfDumpsIsMadeOnce(t *testing.T) {
	c := envCluster(t, noSnapshots(), store())
	f := asAuto()
	f.method, f.size, f.class, f.sized = "dump", "50Gi", "fast", true
	out, errOut, err := backUp(t, c, f, printers.Name)
	require.NoError(t, err)
	assert.Equal(t, "job.batch/"+theBackup+"\n", out, "what --from takes")
	assert.Equal(t, "Backup by dump: as configured.\n", errOut)
	claim := &corev1.PersistentVolumeClaim{}
	require.True(t, there(t, c, claim, render.BackupsClaim))
	assert.Equal(t, "50Gi fast", claim.Spec.Resources.Requests.Storage().String()+" "+*claim.Spec.StorageClassName)

	require.NoError(t, c.Delete(t.Context(), render.DumpJob(store(), theBackup)))
	out, errOut, err = backUp(t, c, f, "table")
	require.NoError(t, err)
	assert.Equal(t, "job.batch/"+theBackup+" created\n", out)
	assert.Contains(t, errOut, "Warning: PersistentVolumeClaim env-store/database-backups already exists: --size and --storage-class are ignored\n")

	claim.Labels[render.BackupOfLabel] = "other"
	require.NoError(t, c.Update(t.Context(), claim))
	_, _, err = backUp(t, c, f, "table")
	require.EqualError(t, err, "environment.berth.dev/store-1a2b: PersistentVolumeClaim env-store/database-backups exists and is not for backups of this environment: "+
		`its label berth.dev/backup-of is "other"`)
}

func TestADryRunOfABackupKeepsNothing(t *testing.T) {
	c := envCluster(t, noSnapshots(), store())
	for _, dryRun := range []string{command.DryRunClient, command.DryRunServer} {
		f := asAuto()
		f.dryRun, f.wait = dryRun, true
		out, _, err := backUp(t, c, f, "table")
		require.NoError(t, err)
		assert.Equal(t, "persistentvolumeclaim/database-backups created"+command.DryRunText(dryRun)+"\njob.batch/"+theBackup+" created"+command.DryRunText(dryRun)+"\n", out)
		assert.False(t, there(t, c, &batchv1.Job{}, theBackup))
		assert.False(t, there(t, c, &corev1.PersistentVolumeClaim{}, render.BackupsClaim))
		out, _, err = backUp(t, c, f, printers.YAML)
		require.NoError(t, err)
		clitest.Golden(t, "backup-database.yaml", out)
		assert.NotContains(t, out, "status:")
	}
}

func TestABackupIsWaitedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		end       batchv1.JobConditionType
		said, err string
	}{
		"done":     {batchv1.JobComplete, "12345678", ""},
		"failed":   {batchv1.JobFailed, "password authentication failed", "wait for job.batch/" + theBackup + ": it failed: it was tried 3 times: password authentication failed"},
		"too late": {"", "connection refused", "job.batch/" + theBackup + " is Running after 20ms: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				after := dumpOf(theBackup, tc.end, tc.said)
				looks := 0
				funcs := noSnapshots()
				list := funcs.List
				funcs.List = func(ctx context.Context, c client.WithWatch, objects client.ObjectList, opts ...client.ListOption) error {
					if _, is := objects.(*batchv1.JobList); is {
						if looks++; looks == 3 {
							require.NoError(t, c.Status().Update(ctx, after[0]))
							require.NoError(t, c.Create(ctx, after[1]))
						}
					}
					return list(ctx, c, objects, opts...)
				}
				f := asAuto()
				f.wait = true
				if tc.end == "" {
					f.timeout = 20 * time.Millisecond
				}
				out, _, err := backUp(t, envCluster(t, funcs, store()), f, "table")
				if tc.err == "" {
					require.NoError(t, err)
					assert.Contains(t, out, "job.batch/"+theBackup+" completed\n")
					assert.Equal(t, 3, looks)
				} else {
					require.EqualError(t, err, tc.err)
				}
			})
		})
	}
}

// A snapshot that has failed is tried again by who makes it.
func TestASnapshotIsWaitedForThoughItFails(t *testing.T) {
	looks := 0
	c := envCluster(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		err := c.List(ctx, list, opts...)
		if u, is := list.(*unstructured.UnstructuredList); is && len(u.Items) > 0 && u.Items[0].GetKind() == "VolumeSnapshot" {
			looks++
			u.Items[0].Object["status"] = map[string]any{"readyToUse": looks > 3, "error": map[string]any{"message": "no room"}}
		}
		return err
	}}, append(databaseOfStore(t), store(), snapshotClass("fast", "disk.csi.example"))...)
	f := asAuto()
	f.wait = true
	out, _, err := backUp(t, c, f, "table")
	require.NoError(t, err)
	assert.Contains(t, out, "volumesnapshot.snapshot.storage.k8s.io/"+theBackup+" completed\n")
	assert.Equal(t, 4, looks)
}

func TestADatabaseThatCannotBeBackedUp(t *testing.T) {
	for want, change := range map[string]func(e *v1alpha1.Environment){
		"environment.berth.dev/store-1a2b: no database: spec.stack.database is not set":                func(e *v1alpha1.Environment) { e.Spec.Stack.Database = nil },
		"environment.berth.dev/store-1a2b: the database is not created yet: status.namespace is empty": func(e *v1alpha1.Environment) { e.Status.Namespace = "" },
		"environment.berth.dev/store-1a2b: method dump (no snapshot is possible: StatefulSet env-store/database does not exist): " +
			"a dump requires a running database, and spec.runPolicy is Stopped (kubectl berth env start store-1a2b --wait)": func(e *v1alpha1.Environment) { e.Spec.RunPolicy = v1alpha1.RunPolicyStopped },
		"environment.berth.dev/store-1a2b: method dump (no snapshot is possible: StatefulSet env-store/database does not exist): " +
			"a dump requires a database that is ready, and component database is not: CrashLoopBackOff: back-off": func(e *v1alpha1.Environment) {
			e.Status.Components[0].Ready, e.Status.Components[0].Reason, e.Status.Components[0].Message = false, "CrashLoopBackOff", "back-off"
		},
		"environment.berth.dev/store-1a2b: method dump (no snapshot is possible: StatefulSet env-store/database does not exist): " +
			"a dump requires a database that is ready, and status.phase is Creating": func(e *v1alpha1.Environment) {
			e.Status.Components, e.Status.Phase = nil, v1alpha1.EnvironmentCreating
		},
		"environment.berth.dev/store-1a2b: cannot update an environment that is Deleting": func(e *v1alpha1.Environment) {
			e.Finalizers, e.DeletionTimestamp = []string{v1alpha1.EnvironmentFinalizer}, new(clitest.Ago(time.Minute))
		},
	} {
		e := store()
		change(e)
		c := envCluster(t, noSnapshots(), e)
		out, _, err := backUp(t, c, asAuto(), "table")
		require.EqualError(t, err, want)
		assert.Empty(t, out)
		assert.False(t, there(t, c, &corev1.PersistentVolumeClaim{}, render.BackupsClaim))
	}
}

func TestBackupsOfADatabaseAreListed(t *testing.T) {
	objects := append(dumpOf("database-20260701-110000", batchv1.JobComplete, "12345678\n"), dumpOf("database-20260701-111000", batchv1.JobFailed, "pg_dump: error: connection refused\n")...)
	restore := render.RestoreJob(store(), "database-restore-20260701-113000", "database-20260701-110000")
	others := render.DumpJob(store(), "database-20260701-000000")
	others.Labels[render.BackupOfLabel] = "other"
	objects = append(objects, restore, others, store(),
		snapshotOf("database-20260701-100000", map[string]any{"readyToUse": true, "restoreSize": "10Gi"}), snapshotOf("database-20260701-100001", nil))
	list := func(c client.Client) func(o *command.Options) error {
		return func(o *command.Options) error {
			list, err := readBackups(t.Context(), databaseOf(o, c, store(), command.DryRunNone))
			require.NoError(t, err)
			return showBackups(o, list)
		}
	}
	clitest.Goldens(t, "", map[string]string{
		"database-backups.txt": printers.Text, "database-backups.json": printers.JSON, "database-backups.names": printers.Name,
	}, list(envCluster(t, interceptor.Funcs{}, objects...)))
	out, errOut := clitest.Printed(t, printers.Text, list(envCluster(t, noSnapshots())))
	assert.Empty(t, out)
	assert.Equal(t, "No backups found of the database of environment shop/store-1a2b.\n", errOut)
}

func TestBackupsAreListedWithoutWhatMayNotBeRead(t *testing.T) {
	c := envCluster(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, is := list.(*batchv1.JobList); is {
			return c.List(ctx, list, opts...)
		}
		return apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", errors.New("no"))
	}}, dumpOf("database-1", batchv1.JobComplete, "1")...)
	o, _, errOut := clitest.Screen("table")
	list, err := readBackups(t.Context(), databaseOf(o, c, store(), command.DryRunNone))
	require.NoError(t, err)
	require.Len(t, list.Backups, 1)
	assert.Empty(t, list.Backups[0].Size)
	assert.Contains(t, errOut.String(), "Warning: cannot read the size of a dump, or why it failed: list pods: ")
	assert.Contains(t, errOut.String(), "Warning: not allowed: list VolumeSnapshots of namespace env-store\n")
}
