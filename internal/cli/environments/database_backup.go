// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/database"
	"berth.dev/berth/internal/environments/render"
)

const aboutBackupDatabase = `Backs up the data of an environment's database in the namespace that the environment runs in, and prints the method. "snapshot" is a
VolumeSnapshot of its volume: it takes no time, is crash-consistent, and can be used in this cluster only. "dump" is a Job in which pg_dump writes
to the claim database-backups, which is created if it does not exist; it requires a running database, and any PostgreSQL that is not older can
read it. "auto" is a snapshot if the driver of the volume has a VolumeSnapshotClass, otherwise a dump.

Anyone who can read the claim or the snapshot can read the whole database. Both are deleted with the namespace that the environment runs in: copy
them elsewhere if they must outlive the environment. To back up specs and Secrets, use kubectl berth env backup.`

const backupDatabaseExamples = `  kubectl berth env backup-database shop --wait

  # A dump, on a new claim of 50 GiB
  kubectl berth env backup-database shop --method dump --size 50Gi --wait

  # Print what would be created
  kubectl berth env backup-database shop --dry-run=client -o yaml`

// backupDatabaseFlags are the flags of backup-database.
type backupDatabaseFlags struct {
	method, size, class, dryRun string
	// sized is set where the user gave a size or a class.
	sized bool
	waitFlags
}

func newBackupDatabase(o *command.Options) *cobra.Command {
	f := &backupDatabaseFlags{waitFlags: waitFlags{poll: pollInterval}}
	methods := []string{string(render.BackupAuto), string(render.BackupSnapshot), string(render.BackupDump)}
	cmd := anEnvironment(o, "backup-database", "Back up the data of an environment's database", aboutBackupDatabase, backupDatabaseExamples,
		func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
			return backupDatabase(ctx, o, c, env, f)
		})
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		f.sized = cmd.Flags().Changed("size") || cmd.Flags().Changed("storage-class")
		return f.check(methods)
	}
	flags := cmd.Flags()
	flags.StringVar(&f.method, "method", methods[0], "The method, one of: "+strings.Join(methods, ", ")+".")
	flags.StringVar(&f.size, "size", "10Gi", "The size of the claim for dumps, if it is created.")
	flags.StringVar(&f.class, "storage-class", "",
		"The StorageClass of the claim for dumps, if it is created. Default: that of the cluster.")
	// fails for a flag that does not exist
	_ = cmd.RegisterFlagCompletionFunc("method", cobra.FixedCompletions(methods, cobra.ShellCompDirectiveNoFileComp))
	f.addTo(cmd, "Wait until the backup is Ready; exit with code 1 if it fails.", databaseTimeout, aboutDatabaseTimeout)
	command.DryRunFlag(cmd, &f.dryRun)
	o.OutputFlag(cmd, printers.JSON, printers.YAML, printers.Name)
	return cmd
}

func (f *backupDatabaseFlags) check(methods []string) error {
	if !slices.Contains(methods, f.method) {
		return fmt.Errorf("--method is %q: it must be one of %s", f.method, strings.Join(methods, ", "))
	}
	if size, err := resource.ParseQuantity(f.size); err != nil || size.Sign() <= 0 {
		return fmt.Errorf("--size is %q: it must be a quantity such as 10Gi", f.size)
	}
	return nil
}

func backupDatabase(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment, f *backupDatabaseFlags) error {
	d := databaseOf(o, c, env, f.dryRun)
	size, err := resource.ParseQuantity(f.size)
	if err == nil {
		err = d.Check()
	}
	name := render.BackupName(o.Now())
	var plan *database.Plan
	if err == nil {
		plan, err = d.Plan(ctx, name, render.BackupMethod(f.method), database.Claim{Size: size, Class: f.class, Given: f.sized})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", environmentName(env.Name), err)
	}
	fmt.Fprintf(o.ErrOut, "Backup by %s: %s.\n", plan.Method, plan.Why)
	if err := createBackup(ctx, o, d, plan, f.dryRun); err != nil || f.dryRun != command.DryRunNone {
		return err
	}
	return f.awaitBackup(ctx, o, backupResource(plan.Method, name), func(ctx context.Context) (render.Backup, error) {
		list, err := readBackups(ctx, d)
		if err != nil {
			return render.Backup{}, err
		}
		return list.find(backupResource(plan.Method, name))
	})
}

// createBackup creates the objects of a plan, and prints their names or the objects.
func createBackup(ctx context.Context, o *command.Options, d *database.Database, plan *database.Plan, dryRun string) error {
	items := make([]any, 0, len(plan.Objects))
	for i, u := range plan.Objects {
		if err := d.Create(ctx, u); err != nil {
			return err
		}
		items = append(items, u.Object)
		name := printers.Resource(u.GroupVersionKind(), u.GetName())
		switch {
		case o.ForPeople():
			fmt.Fprintf(o.Out, "%s created%s\n", name, command.DryRunText(dryRun))
		case o.Output == printers.Name && i == len(plan.Objects)-1: // the backup alone: --from takes it
			fmt.Fprintln(o.Out, name)
		}
	}
	return o.PrintObjects(items)
}

const aboutRestoreDatabase = `Replaces the data of an environment's database by a backup. What was written since the backup is lost. Without --confirm the command
replaces nothing: it reports whether the backup can be restored and what would be replaced.

A dump is restored by a Job while the database runs, in one transaction. It waits for other transactions, so scale the backend to 0 first.
Tables that are not in the dump stay; if one of them depends on a table that is replaced, the restore fails and names it.

A snapshot is restored while the environment is stopped: the claim is deleted, with its volume if the reclaim policy of the volume is Delete, and
recreated from the snapshot.`

const restoreDatabaseExamples = `  # A dump
  kubectl berth env database-backups shop
  kubectl berth env scale shop backend=0 --wait
  kubectl berth env restore-database shop --from database-20260131-093000 --confirm --wait

  # A snapshot
  kubectl berth env stop shop --wait
  kubectl berth env restore-database shop --from database-20260131-093000 --confirm
  kubectl berth env start shop --wait`

// replacePoll is how often the command tries to create the claim that is being deleted. The controller would create an empty one 200 ms
// after the deletion.
const replacePoll = 50 * time.Millisecond

// restoreDatabaseFlags are the flags of restore-database.
type restoreDatabaseFlags struct {
	from        string
	confirm     bool
	replacePoll time.Duration
	waitFlags
}

func newRestoreDatabase(o *command.Options) *cobra.Command {
	f := &restoreDatabaseFlags{replacePoll: replacePoll, waitFlags: waitFlags{poll: pollInterval}}
	cmd := anEnvironment(o, "restore-database", "Replace the data of an environment's database by a backup", aboutRestoreDatabase,
		restoreDatabaseExamples,
		func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
			return restoreDatabase(ctx, o, c, env, f)
		})
	cmd.Flags().StringVar(&f.from, "from", "", "The backup, as database-backups lists it.")
	cmd.Flags().BoolVar(&f.confirm, "confirm", false, "Replace the data. What was written since the backup is lost.")
	_ = cmd.MarkFlagRequired("from") // fails for a flag that does not exist
	_ = cmd.RegisterFlagCompletionFunc("from", func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return completeBackups(o, args), cobra.ShellCompDirectiveNoFileComp
	})
	f.addTo(cmd, "Wait until the Job of a dump has ended; exit with code 1 if it fails. The command always waits for a snapshot.",
		databaseTimeout, aboutDatabaseTimeout)
	return cmd
}

// completeBackups returns the names of the backups of the named environment.
func completeBackups(o *command.Options, args []string) (names []string) {
	if len(args) == 0 {
		return nil
	}
	_ = o.CompleteWith(func(ctx context.Context, namespace string, c client.Client) error {
		env, err := environmentNamed(ctx, c, namespace, args[0])
		if err != nil {
			return err
		}
		list, err := databaseOf(o, c, env, command.DryRunNone).Backups(ctx)
		for i := range list {
			names = append(names, list[i].Name)
		}
		return err
	})
	return names
}

// restoreDatabase restores a backup. It checks everything that it can before it requires --confirm.
func restoreDatabase(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment, f *restoreDatabaseFlags) error {
	d := databaseOf(o, c, env, command.DryRunNone)
	if err := d.Check(); err != nil {
		return fmt.Errorf("%s: %w", environmentName(env.Name), err)
	}
	list, err := readBackups(ctx, d)
	if err != nil {
		return err
	}
	b, err := list.find(f.from)
	if err != nil {
		return err
	}
	if b.State != render.BackupReady {
		return fmt.Errorf("backup %s is %s, not Ready: %s", b.Name, b.State, b.Message)
	}
	claim, err := d.Replaceable(ctx, &b)
	if err != nil {
		return fmt.Errorf("%s: %w", environmentName(env.Name), err)
	}
	if !f.confirm {
		what := fmt.Sprintf("database %q", render.DatabaseName(env.Spec.Stack.Database))
		if claim != nil {
			what = fmt.Sprintf("claim %s with all databases", claim.Name)
		}
		return fmt.Errorf("--confirm is required: %s of %s would be replaced by %s of %s, and what was written since then would be lost",
			what, environmentName(env.Name), b.Name, b.Created.UTC().Format(time.RFC3339))
	}
	if claim != nil {
		return restoreSnapshot(ctx, o, d, claim, b.Name, f)
	}
	return restoreDump(ctx, o, d, b.Name, f)
}

func restoreSnapshot(ctx context.Context, o *command.Options, d *database.Database, claim *corev1.PersistentVolumeClaim, snapshot string,
	f *restoreDatabaseFlags,
) error {
	if err := d.RestoreSnapshot(ctx, claim, snapshot, f.replacePoll, f.timeout); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "persistentvolumeclaim/%s recreated from %s\n", claim.Name, backupResource(render.BackupSnapshot, snapshot))
	fmt.Fprintf(o.ErrOut, "Start the environment with: kubectl berth env start %s -n %s --wait\n", d.Of.Name, d.Of.Namespace)
	return nil
}

func restoreDump(ctx context.Context, o *command.Options, d *database.Database, dump string, f *restoreDatabaseFlags) error {
	name := render.RestoreName(o.Now())
	if err := d.RestoreDump(ctx, name, dump); err != nil {
		return err
	}
	job := backupResource(render.BackupDump, name)
	fmt.Fprintf(o.Out, "%s created\n", job)
	return f.awaitBackup(ctx, o, job, func(ctx context.Context) (render.Backup, error) { return d.Restored(ctx, name) })
}
