// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/schedule"
)

const aboutBackupDatabase = `Creates a DatabaseBackup, which berth-environments runs. "snapshot" is a VolumeSnapshot of the volume of the database: it takes no time, is
crash-consistent, and can be used in this cluster only. "dump" is a Job in which pg_dump writes to the claim database-backups of the namespace that
the environment runs in; it requires a running database, and any PostgreSQL that is not older can read it. "auto" is a snapshot if the driver of
the volume has a VolumeSnapshotClass, otherwise a dump.

With --schedule it creates a DatabaseBackupSchedule, which creates backups at these times and deletes the oldest.

The data is deleted with the DatabaseBackup, and with the namespace that the environment runs in: copy it elsewhere if it must outlive the
environment. To back up specs and Secrets, use kubectl berth env backup.`

const backupDatabaseExamples = `  kubectl berth env backup-database shop --wait

  # A dump that is restored into a scratch database and encrypted by the key "key" of a Secret
  kubectl berth env backup-database shop --method dump --verify --encryption-secret backup-key --wait

  # A verified dump each night, of which the last 14 are kept
  kubectl berth env backup-database shop --method dump --verify --schedule "0 3 * * *" --time-zone Europe/Berlin --keep 14

  # Print what would be created
  kubectl berth env backup-database shop --dry-run=client -o yaml`

// methods are the values of --method.
var methods = map[string]v1alpha1.DatabaseBackupMethod{
	"auto": v1alpha1.DatabaseBackupAuto, "dump": v1alpha1.DatabaseBackupDump, "snapshot": v1alpha1.DatabaseBackupSnapshot,
}

// backupDatabaseFlags are the flags of backup-database.
type backupDatabaseFlags struct {
	method, secret, size, class string
	verify                      bool
	// of a schedule
	schedule, zone    string
	keep, maxAgeHours int32
	dryRun            string
	waitFlags
}

func newBackupDatabase(o *command.Options) *cobra.Command {
	f := &backupDatabaseFlags{waitFlags: waitFlags{poll: pollInterval}}
	cmd := anEnvironment(o, "backup-database", "Back up the data of an environment's database", aboutBackupDatabase, backupDatabaseExamples,
		func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
			return backupDatabase(ctx, o, c, env, f)
		})
	cmd.PreRunE = func(*cobra.Command, []string) error { return f.check() }
	names := slices.Sorted(maps.Keys(methods))
	flags := cmd.Flags()
	flags.StringVar(&f.method, "method", "auto", "The method, one of: "+strings.Join(names, ", ")+".")
	flags.BoolVar(&f.verify, "verify", false, "Restore the dump into a scratch database, which is dropped then. Requires --method dump.")
	flags.StringVar(&f.secret, "encryption-secret", "",
		`A Secret in the namespace of the environment whose key "key" encrypts the dump. Requires --method dump.`)
	flags.StringVar(&f.size, "size", "", "The size of the claim for dumps, if it is created. Default: 10Gi.")
	flags.StringVar(&f.class, "storage-class", "",
		"The StorageClass of the claim for dumps, if it is created. Default: that of the cluster.")
	flags.StringVar(&f.schedule, "schedule", "", `Create a DatabaseBackupSchedule with these times, such as "0 3 * * *".`)
	flags.StringVar(&f.zone, "time-zone", "", "The time zone of --schedule, such as Europe/Berlin. Default: UTC.")
	flags.Int32Var(&f.keep, "keep", 7, "The number of completed backups of --schedule that are kept, from 1 to 100.")
	flags.Int32Var(&f.maxAgeHours, "max-age-hours", 0,
		"The age in hours after which the last backup of --schedule is too old. Default: two missed times and an hour.")
	// fails for a flag that does not exist
	_ = cmd.RegisterFlagCompletionFunc("method", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	f.addTo(cmd, "Wait until the backup is Completed; exit with code 1 if it fails.", databaseTimeout, aboutDatabaseTimeout)
	command.DryRunFlag(cmd, &f.dryRun)
	o.OutputFlag(cmd, printers.JSON, printers.YAML, printers.Name)
	return cmd
}

func (f *backupDatabaseFlags) check() error {
	if _, known := methods[f.method]; !known {
		return fmt.Errorf("--method is %q: it must be one of %s", f.method, strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
	}
	if (f.verify || f.secret != "") && f.method != "dump" {
		return fmt.Errorf("--method is %q: --verify and --encryption-secret require dump", f.method)
	}
	if f.size != "" {
		if size, err := resource.ParseQuantity(f.size); err != nil || size.Sign() <= 0 {
			return fmt.Errorf("--size is %q: it must be a quantity such as 10Gi", f.size)
		}
	}
	return f.checkSchedule()
}

func (f *backupDatabaseFlags) checkSchedule() error {
	switch {
	case f.schedule == "" && (f.zone != "" || f.maxAgeHours != 0):
		return errors.New("--time-zone and --max-age-hours require --schedule")
	case f.schedule != "" && f.wait:
		return errors.New("--wait cannot be used with --schedule: no backup is created yet")
	case f.keep < 1 || f.keep > 100:
		return fmt.Errorf("--keep is %d: it must be a number from 1 to 100", f.keep)
	}
	return nil
}

func (f *backupDatabaseFlags) settings() v1alpha1.DatabaseBackupSettings {
	s := v1alpha1.DatabaseBackupSettings{Method: methods[f.method], Verify: f.verify}
	if f.secret != "" {
		s.EncryptionSecretRef = &v1alpha1.EnvironmentSecret{Name: f.secret}
	}
	if f.size != "" || f.class != "" {
		s.Storage = &v1alpha1.DatabaseBackupStorage{Size: f.size, StorageClassName: f.class}
	}
	return s
}

func backupDatabase(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment, f *backupDatabaseFlags) error {
	if env.Spec.Stack.Database == nil {
		return fmt.Errorf("%s has no database", environmentKind.Name(env.Name))
	}
	if f.schedule != "" {
		return scheduleBackups(ctx, o, c, env, f)
	}
	b := &v1alpha1.DatabaseBackup{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: render.OperationName(env.Name, o.Now())},
		Spec:       v1alpha1.DatabaseBackupSpec{Environment: env.Name, DatabaseBackupSettings: f.settings()},
	}
	if err := createObject(ctx, o, c, b, "DatabaseBackup", f.dryRun); err != nil || f.dryRun != command.DryRunNone {
		return err
	}
	return f.awaitOperation(ctx, o, databaseBackupKind.Name(b.Name), func(ctx context.Context) (*v1alpha1.DatabaseOperationStatus, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(b), b)
		return &b.Status.DatabaseOperationStatus, err
	})
}

func scheduleBackups(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment, f *backupDatabaseFlags) error {
	name := env.Name
	s := &v1alpha1.DatabaseBackupSchedule{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name},
		Spec: v1alpha1.DatabaseBackupScheduleSpec{
			Environment: env.Name, Schedule: f.schedule, TimeZone: f.zone, Keep: f.keep, DatabaseBackupSettings: f.settings(),
		},
	}
	if f.maxAgeHours != 0 {
		s.Spec.MaxAgeHours = &f.maxAgeHours
	}
	if _, err := schedule.Parse(&s.Spec); err != nil {
		return err
	}
	return createObject(ctx, o, c, s, "DatabaseBackupSchedule", f.dryRun)
}
