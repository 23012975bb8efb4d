// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/render"
)

const aboutRestoreDatabase = `Creates a DatabaseRestore: berth-environments replaces the data of the environment's database by a backup. What was written since the backup
is lost. Without --confirm the command creates nothing and prints what would be replaced.

A dump is restored by a Job while the database runs, in one transaction. It waits for other transactions, so scale the backend to 0 first. Tables
that are not in the dump stay; if one of them depends on a table that is replaced, the restore fails and names it. The dump may be of another
environment of the same namespace.

A snapshot is restored while the environment is stopped: the claim is deleted, with its volume if the reclaim policy of the volume is Delete, and
recreated from the snapshot.`

const restoreDatabaseExamples = `  # A dump
  kubectl berth env database-backups shop
  kubectl berth env scale shop backend=0 --wait
  kubectl berth env restore-database shop --from shop-20260131-093000 --confirm --wait

  # A snapshot
  kubectl berth env stop shop --wait
  kubectl berth env restore-database shop --from shop-20260131-093000 --confirm --wait
  kubectl berth env start shop --wait`

// restoreDatabaseFlags are the flags of restore-database.
type restoreDatabaseFlags struct {
	from    string
	confirm bool
	dryRun  string
	waitFlags
}

func newRestoreDatabase(o *command.Options) *cobra.Command {
	f := &restoreDatabaseFlags{waitFlags: waitFlags{poll: pollInterval}}
	cmd := anEnvironment(o, "restore-database", "Replace the data of an environment's database by a backup", aboutRestoreDatabase,
		restoreDatabaseExamples,
		func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
			return restoreDatabase(ctx, o, c, env, f)
		})
	cmd.Flags().StringVar(&f.from, "from", "", "The name of a DatabaseBackup in the namespace of the environment.")
	cmd.Flags().BoolVar(&f.confirm, "confirm", false, "Replace the data. What was written since the backup is lost.")
	_ = cmd.MarkFlagRequired("from") // fails for a flag that does not exist
	_ = cmd.RegisterFlagCompletionFunc("from", func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return databaseBackupKind.Complete(o)(cmd, nil, prefix)
	})
	f.addTo(cmd, "Wait until the restore is Completed; exit with code 1 if it fails.", databaseTimeout, aboutDatabaseTimeout)
	command.DryRunFlag(cmd, &f.dryRun)
	o.OutputFlag(cmd, printers.JSON, printers.YAML, printers.Name)
	return cmd
}

// restoreDatabase checks what it can before it requires --confirm: a restore that waits could begin much later.
func restoreDatabase(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment, f *restoreDatabaseFlags) error {
	b, err := databaseBackupKind.Get(ctx, c, env.Namespace, f.from)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("--from is %q: namespace %s has no such DatabaseBackup (kubectl berth env database-backups %s)", f.from, env.Namespace,
			env.Name)
	}
	if err != nil {
		return err
	}
	if err := restorable(env, b); err != nil {
		return err
	}
	if !f.confirm && !command.IsDryRun(f.dryRun) {
		what := fmt.Sprintf("database %q", render.DatabaseName(env.Spec.Stack.Database))
		if b.Status.Method == v1alpha1.DatabaseBackupSnapshot {
			what = "the volume with all databases"
		}
		return fmt.Errorf("--confirm is required: %s of %s would be replaced by %s of %s, and what was written since then would be lost",
			what, environmentKind.Name(env.Name), b.Name, b.CreationTimestamp.UTC().Format(time.RFC3339))
	}
	r := &v1alpha1.DatabaseRestore{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: render.OperationName(env.Name, o.Now())},
		Spec:       v1alpha1.DatabaseRestoreSpec{Environment: env.Name, Backup: b.Name, EncryptionSecretRef: b.Spec.EncryptionSecretRef},
	}
	if err := createObject(ctx, o, c, r, "DatabaseRestore", f.dryRun); err != nil || command.IsDryRun(f.dryRun) {
		return err
	}
	return f.awaitOperation(ctx, o, operationName("DatabaseRestore", r.Name),
		func(ctx context.Context) (*v1alpha1.DatabaseOperationStatus, error) {
			err := c.Get(ctx, client.ObjectKeyFromObject(r), r)
			return &r.Status.DatabaseOperationStatus, err
		})
}

// restorable returns an error if a restore could not begin at once.
func restorable(env *v1alpha1.Environment, b *v1alpha1.DatabaseBackup) error {
	name := environmentKind.Name(env.Name)
	switch snapshot := b.Status.Method == v1alpha1.DatabaseBackupSnapshot; {
	case env.Spec.Stack.Database == nil:
		return fmt.Errorf("%s has no database", name)
	case b.Status.Phase != v1alpha1.DatabaseBackupCompleted:
		return fmt.Errorf("%s is %s, not Completed: %s", databaseBackupKind.Name(b.Name), summaryOf(b).Phase, b.Status.Message)
	case snapshot && b.Spec.Environment != env.Name:
		return fmt.Errorf("%s is a snapshot of environment %s, and can be restored only there", databaseBackupKind.Name(b.Name), b.Spec.Environment)
	case snapshot && render.PhaseOf(env) != v1alpha1.EnvironmentStopped:
		return fmt.Errorf("%s is %s: a snapshot can be restored only while the environment is Stopped (kubectl berth env stop %s --wait)", name,
			render.PhaseOf(env), env.Name)
	case !snapshot && env.Spec.RunPolicy == v1alpha1.RunPolicyStopped:
		return fmt.Errorf("%s is stopped: a dump requires a running database (kubectl berth env start %s --wait)", name, env.Name)
	}
	return nil
}
