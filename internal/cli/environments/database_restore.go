// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/database"
	"berth.dev/berth/internal/environments/render"
)

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
	databaseWait
}

func newRestoreDatabase(o *command.Options) *cobra.Command {
	f := &restoreDatabaseFlags{replacePoll: replacePoll, databaseWait: databaseWait{poll: pollInterval}}
	cmd := anEnvironment(o, "restore-database", "Replace the data of an environment's database by a backup", aboutRestoreDatabase, restoreDatabaseExamples,
		func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
			return restoreDatabase(o, ctx, c, env, f)
		})
	cmd.Flags().StringVar(&f.from, "from", "", "The backup, as database-backups lists it.")
	cmd.Flags().BoolVar(&f.confirm, "confirm", false, "Replace the data. What was written since the backup is lost.")
	_ = cmd.MarkFlagRequired("from") // fails for a flag that does not exist
	_ = cmd.RegisterFlagCompletionFunc("from", func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return completeBackups(o, args), cobra.ShellCompDirectiveNoFileComp
	})
	f.flags(cmd, "Wait until the Job of a dump has ended; exit with code 1 if it fails. The command always waits for a snapshot.")
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
func restoreDatabase(o *command.Options, ctx context.Context, c client.Client, env *v1alpha1.Environment, f *restoreDatabaseFlags) error {
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
	claim, err := d.Replaceable(ctx, b)
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
		return restoreSnapshot(o, ctx, d, claim, b.Name, f)
	}
	return restoreDump(o, ctx, d, b.Name, f)
}

func restoreSnapshot(o *command.Options, ctx context.Context, d *database.Database, claim *corev1.PersistentVolumeClaim, snapshot string, f *restoreDatabaseFlags) error {
	if err := d.RestoreSnapshot(ctx, claim, snapshot, f.replacePoll, f.timeout); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "persistentvolumeclaim/%s recreated from %s\n", claim.Name, backupResource(render.BackupSnapshot, snapshot))
	fmt.Fprintf(o.ErrOut, "Start the environment with: kubectl berth env start %s -n %s --wait\n", d.Of.Name, d.Of.Namespace)
	return nil
}

func restoreDump(o *command.Options, ctx context.Context, d *database.Database, dump string, f *restoreDatabaseFlags) error {
	name := render.RestoreName(o.Now())
	if err := d.RestoreDump(ctx, name, dump); err != nil {
		return err
	}
	job := backupResource(render.BackupDump, name)
	fmt.Fprintf(o.Out, "%s created\n", job)
	return f.await(o, ctx, job, func(ctx context.Context) (render.Backup, error) { return d.Restored(ctx, name) })
}
