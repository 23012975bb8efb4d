// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/test/clitest"
)

const theBackup = "store-1a2b-20260701-120000"

// aBackup is one of the store, made some minutes ago.
func aBackup(name string, minutes int, phase v1alpha1.DatabaseBackupPhase, change func(b *v1alpha1.DatabaseBackup)) *v1alpha1.DatabaseBackup {
	b := &v1alpha1.DatabaseBackup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: clitest.Ago(time.Duration(minutes) * time.Minute)}}
	b.Spec.Environment, b.Spec.Method = "store-1a2b", v1alpha1.DatabaseBackupAuto
	b.Status.Phase, b.Status.Method = phase, v1alpha1.DatabaseBackupDump
	if change != nil {
		change(b)
	}
	return b
}

func asAuto() *backupDatabaseFlags {
	return &backupDatabaseFlags{method: "auto", keep: 7, dryRun: command.DryRunNone, waitFlags: waitFlags{timeout: time.Minute, poll: time.Second}}
}

// backUp backs up the store, and returns what is printed.
func backUp(t *testing.T, c client.Client, f *backupDatabaseFlags, output string) (string, error) {
	t.Helper()
	require.NoError(t, f.check())
	o, out, _ := clitest.Screen(output)
	err := backupDatabase(t.Context(), o, c, reread(t, c), f)
	return out.String(), err
}

func TestABackupOfADatabaseIsCreated(t *testing.T) {
	c := envCluster(t, interceptor.Funcs{}, store())
	f := asAuto()
	f.method, f.verify, f.secret, f.size, f.class = "dump", true, "backup-key", "50Gi", "fast"
	f.dryRun = command.DryRunClient
	out, err := backUp(t, c, f, printers.YAML)
	require.NoError(t, err)
	clitest.Golden(t, "backup-database.yaml", out)
	b := &v1alpha1.DatabaseBackup{}
	key := client.ObjectKey{Namespace: "shop", Name: theBackup}
	require.Error(t, c.Get(t.Context(), key, b), "a dry run stores nothing")

	out, err = backUp(t, c, asAuto(), "table")
	require.NoError(t, err)
	assert.Equal(t, "databasebackup.berth.dev/"+theBackup+" created\n", out)
	require.NoError(t, c.Get(t.Context(), key, b))
	assert.Equal(t, v1alpha1.DatabaseBackupSpec{Environment: "store-1a2b", DatabaseBackupSettings: v1alpha1.DatabaseBackupSettings{Method: "Auto"}}, b.Spec)
}

func TestBackupsOfADatabaseAreScheduled(t *testing.T) {
	c := envCluster(t, interceptor.Funcs{}, store())
	f := asAuto()
	f.schedule, f.zone, f.keep, f.maxAgeHours, f.dryRun = "0 3 * * *", "Europe/Berlin", 14, 36, command.DryRunServer
	out, err := backUp(t, c, f, printers.YAML)
	require.NoError(t, err)
	clitest.Golden(t, "backup-schedule.yaml", out)
	f.schedule = "0 99 * * *"
	_, err = backUp(t, c, f, "table")
	require.ErrorContains(t, err, `spec.schedule: "0 99 * * *" is not a schedule`)
}

func TestWrongFlagsOfABackupAreRefused(t *testing.T) {
	for want, change := range map[string]func(f *backupDatabaseFlags){
		`--method is "tape": it must be one of auto, dump, snapshot`:        func(f *backupDatabaseFlags) { f.method = "tape" },
		`--method is "auto": --verify and --encryption-secret require dump`: func(f *backupDatabaseFlags) { f.verify = true },
		`--size is "-1": it must be a quantity such as 10Gi`:                func(f *backupDatabaseFlags) { f.size = "-1" },
		`--time-zone and --max-age-hours require --schedule`:                func(f *backupDatabaseFlags) { f.zone = "UTC" },
		`--wait cannot be used with --schedule: no backup is created yet`:   func(f *backupDatabaseFlags) { f.schedule, f.wait = "@daily", true },
		`--keep is 101: it must be a number from 1 to 100`:                  func(f *backupDatabaseFlags) { f.keep = 101 },
	} {
		f := asAuto()
		change(f)
		require.EqualError(t, f.check(), want)
	}
	bare := store()
	bare.Spec.Stack.Database = nil
	_, err := backUp(t, envCluster(t, interceptor.Funcs{}, bare), asAuto(), "table")
	require.EqualError(t, err, "environment.berth.dev/store-1a2b has no database")
}

// advancing is a cluster in which an object has a status from the third look on.
func advancing(t *testing.T, phase v1alpha1.DatabaseBackupPhase, message string, objects ...client.Object) client.Client {
	t.Helper()
	looks := 0
	return envCluster(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		err := c.Get(ctx, key, o, opts...)
		var status *v1alpha1.DatabaseOperationStatus
		switch o := o.(type) {
		case *v1alpha1.DatabaseBackup:
			status = &o.Status.DatabaseOperationStatus
		case *v1alpha1.DatabaseRestore:
			status = &o.Status.DatabaseOperationStatus
		default:
			return err
		}
		if looks++; looks > 2 {
			status.Phase, status.Message = phase, message
		}
		return err
	}}, objects...)
}

func TestABackupIsWaitedFor(t *testing.T) {
	for phase, want := range map[v1alpha1.DatabaseBackupPhase]string{
		v1alpha1.DatabaseBackupCompleted: "",
		v1alpha1.DatabaseBackupFailed:    "wait for databasebackup.berth.dev/" + theBackup + ": it failed: no room",
		v1alpha1.DatabaseBackupPending:   "databasebackup.berth.dev/" + theBackup + " is Pending after 1m0s: no room",
		"":                               "databasebackup.berth.dev/" + theBackup + " is Pending after 1m0s: no controller has reported anything yet (berth-environments)",
	} {
		synctest.Test(t, func(t *testing.T) {
			f := asAuto()
			f.wait = true
			out, err := backUp(t, advancing(t, phase, "no room", store()), f, "table")
			if want == "" {
				require.NoError(t, err)
				assert.Equal(t, "databasebackup.berth.dev/"+theBackup+" created\ndatabasebackup.berth.dev/"+theBackup+" completed\n", out)
			} else {
				require.EqualError(t, err, want)
			}
		})
	}
}

func TestBackupsOfADatabaseAreListed(t *testing.T) {
	list := func(objects ...client.Object) func(o *command.Options) error {
		return func(o *command.Options) error {
			list, err := readBackups(t.Context(), envCluster(t, interceptor.Funcs{}, objects...), store())
			require.NoError(t, err)
			return showBackups(o, list)
		}
	}
	clitest.Goldens(t, "", map[string]string{
		"database-backups.txt": printers.Text, "database-backups.json": printers.JSON, "database-backups.names": printers.Name,
	}, list(
		aBackup("new", 1, "", func(b *v1alpha1.DatabaseBackup) { b.Status.Method = "" }),
		aBackup("nightly-1", 60, v1alpha1.DatabaseBackupCompleted, func(b *v1alpha1.DatabaseBackup) {
			b.Labels = map[string]string{v1alpha1.DatabaseScheduleLabel: "nightly"}
			b.Status.Size, b.Status.Verified, b.Status.Encrypted = "12Mi", true, true
		}),
		aBackup("failed", 30, v1alpha1.DatabaseBackupFailed, func(b *v1alpha1.DatabaseBackup) { b.Status.Message = "pg_dump: error: connection refused" }),
		aBackup("of-another", 30, v1alpha1.DatabaseBackupCompleted, func(b *v1alpha1.DatabaseBackup) { b.Spec.Environment = "other" }),
		aBackup("snapshot", 120, v1alpha1.DatabaseBackupCompleted, func(b *v1alpha1.DatabaseBackup) {
			b.Status.Method, b.Status.Size = v1alpha1.DatabaseBackupSnapshot, "10Gi"
		}),
	))
	out, errOut := clitest.Printed(t, printers.Text, list())
	assert.Empty(t, out)
	assert.Equal(t, "No backups found of the database of environment shop/store-1a2b.\n", errOut)
}

// putBack restores the store from a backup, and returns what is printed.
func putBack(t *testing.T, c client.Client, from string, confirm bool) (string, error) {
	t.Helper()
	o, out, _ := clitest.Screen("table")
	f := &restoreDatabaseFlags{from: from, confirm: confirm, waitFlags: waitFlags{wait: true, timeout: time.Minute, poll: time.Second}}
	err := restoreDatabase(t.Context(), o, c, reread(t, c), f)
	return out.String(), err
}

func TestADatabaseIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := advancing(t, v1alpha1.DatabaseBackupCompleted, "", store(), aBackup("b", 60, v1alpha1.DatabaseBackupCompleted, nil))
		out, err := putBack(t, c, "databasebackup.berth.dev/b", true)
		require.NoError(t, err)
		assert.Equal(t, "databaserestore.berth.dev/"+theBackup+" created\ndatabaserestore.berth.dev/"+theBackup+" completed\n", out)
		r := &v1alpha1.DatabaseRestore{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: theBackup}, r))
		assert.Equal(t, v1alpha1.DatabaseRestoreSpec{Environment: "store-1a2b", Backup: "b"}, r.Spec)
	})
}

func TestARestoreIsRefusedBeforeAnythingIsLost(t *testing.T) {
	snapshot := func(b *v1alpha1.DatabaseBackup) { b.Status.Method = v1alpha1.DatabaseBackupSnapshot }
	stopped := store()
	stopped.Spec.RunPolicy = v1alpha1.RunPolicyStopped
	bare := store()
	bare.Spec.Stack.Database = nil
	for want, c := range map[string]struct {
		env     *v1alpha1.Environment
		backup  *v1alpha1.DatabaseBackup
		confirm bool
	}{
		`--from is "b": namespace shop has no such DatabaseBackup (kubectl berth env database-backups store-1a2b)`: {store(), aBackup("c", 60, "", nil), true},
		"environment.berth.dev/store-1a2b has no database":                                                         {bare, aBackup("b", 60, v1alpha1.DatabaseBackupCompleted, nil), true},
		"databasebackup.berth.dev/b is Pending, not Completed: ":                                                   {store(), aBackup("b", 60, "", nil), true},
		"databasebackup.berth.dev/b is a snapshot of environment other, and can be restored only there": {store(), aBackup("b", 60, v1alpha1.DatabaseBackupCompleted, func(b *v1alpha1.DatabaseBackup) {
			snapshot(b)
			b.Spec.Environment = "other"
		}), true},
		"environment.berth.dev/store-1a2b is Running: a snapshot can be restored only while the environment is Stopped (kubectl berth env stop store-1a2b --wait)":                  {store(), aBackup("b", 60, v1alpha1.DatabaseBackupCompleted, snapshot), true},
		"environment.berth.dev/store-1a2b is stopped: a dump requires a running database (kubectl berth env start store-1a2b --wait)":                                               {stopped, aBackup("b", 60, v1alpha1.DatabaseBackupCompleted, nil), true},
		"--confirm is required: database \"app\" of environment.berth.dev/store-1a2b would be replaced by b of 2026-07-01T11:00:00Z, and what was written since then would be lost": {store(), aBackup("b", 60, v1alpha1.DatabaseBackupCompleted, nil), false},
	} {
		cluster := envCluster(t, interceptor.Funcs{}, c.env, c.backup)
		_, err := putBack(t, cluster, "b", c.confirm)
		require.EqualError(t, err, want)
		list := &v1alpha1.DatabaseRestoreList{}
		require.NoError(t, cluster.List(t.Context(), list))
		assert.Empty(t, list.Items)
	}
}
