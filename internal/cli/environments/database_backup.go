// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
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
	databaseWait
}

func newBackupDatabase(o *command.Options) *cobra.Command {
	f := &backupDatabaseFlags{databaseWait: databaseWait{poll: pollInterval}}
	methods := []string{string(render.BackupAuto), string(render.BackupSnapshot), string(render.BackupDump)}
	cmd := anEnvironment(o, "backup-database", "Back up the data of an environment's database", aboutBackupDatabase, backupDatabaseExamples,
		func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
			return backupDatabase(o, ctx, c, env, f)
		})
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.sized = cmd.Flags().Changed("size") || cmd.Flags().Changed("storage-class")
		if err := f.check(methods); err != nil {
			return err
		}
		return run(cmd, args)
	}
	flags := cmd.Flags()
	flags.StringVar(&f.method, "method", methods[0], "The method, one of: "+strings.Join(methods, ", ")+".")
	flags.StringVar(&f.size, "size", "10Gi", "The size of the claim for dumps, if it is created.")
	flags.StringVar(&f.class, "storage-class", "", "The StorageClass of the claim for dumps, if it is created. Default: that of the cluster.")
	_ = cmd.RegisterFlagCompletionFunc("method", cobra.FixedCompletions(methods, cobra.ShellCompDirectiveNoFileComp)) // fails for a flag that does not exist
	f.flags(cmd, "Wait until the backup is Ready; exit with code 1 if it fails.")
	command.DryRunFlag(cmd, &f.dryRun)
	o.OutputFlag(cmd, printers.JSON, printers.YAML, printers.Name)
	return cmd
}

func (f *backupDatabaseFlags) check(methods []string) error {
	if err := command.CheckDryRun(f.dryRun); err != nil {
		return err
	}
	switch render.BackupMethod(f.method) {
	case render.BackupAuto, render.BackupSnapshot, render.BackupDump:
	default:
		return fmt.Errorf("--method is %q: it must be one of %s", f.method, strings.Join(methods, ", "))
	}
	if size, err := resource.ParseQuantity(f.size); err != nil || size.Sign() <= 0 {
		return fmt.Errorf("--size is %q: it must be a quantity such as 10Gi", f.size)
	}
	return nil
}

func backupDatabase(o *command.Options, ctx context.Context, c client.Client, env *v1alpha1.Environment, f *backupDatabaseFlags) error {
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
	if err := createBackup(o, ctx, d, plan, f.dryRun); err != nil || f.dryRun != command.DryRunNone {
		return err
	}
	return f.await(o, ctx, backupResource(plan.Method, name), func(ctx context.Context) (render.Backup, error) {
		list, err := readBackups(ctx, d)
		if err != nil {
			return render.Backup{}, err
		}
		b, err := list.find(backupResource(plan.Method, name))
		if err != nil {
			return render.Backup{}, err
		}
		return *b, nil
	})
}

// createBackup creates the objects of a plan, and prints their names or the objects.
func createBackup(o *command.Options, ctx context.Context, d *database.Database, plan *database.Plan, dryRun string) error {
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
