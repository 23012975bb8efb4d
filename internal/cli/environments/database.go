// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/database"
	"berth.dev/berth/internal/environments/render"
)

const aboutDatabaseBackups = `Lists the backups of an environment's database, the newest last. A backup can be restored if its state is Ready. A dump is
listed as long as its Job exists, a snapshot as long as its VolumeSnapshot exists.`

const databaseBackupsExamples = `  kubectl berth env database-backups shop
  kubectl berth env database-backups shop -o json`

// DatabaseBackups is what `env database-backups` shows.
type DatabaseBackups struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// RunsIn is the namespace of the backups.
	RunsIn  string          `json:"runsIn"`
	Backups []render.Backup `json:"backups"`
}

func newDatabaseBackups(o *command.Options) *cobra.Command {
	cmd := anEnvironment(o, "database-backups", "List the backups of an environment's database", aboutDatabaseBackups,
		databaseBackupsExamples,
		func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
			list, err := readBackups(ctx, databaseOf(o, c, env, command.DryRunNone))
			if err != nil {
				return err
			}
			return showBackups(o, list)
		})
	o.OutputFlag(cmd, printers.JSON, printers.YAML, printers.Name)
	return cmd
}

// databaseOf returns the database of an environment, on which a command works.
func databaseOf(o *command.Options, c client.Client, env *v1alpha1.Environment, dryRun string) *database.Database {
	return &database.Database{Reader: c, Writer: command.Writer(c, dryRun, fieldOwner), Of: env, Warn: o.Warn}
}

func readBackups(ctx context.Context, d *database.Database) (*DatabaseBackups, error) {
	list, err := d.Backups(ctx)
	return &DatabaseBackups{Namespace: d.Of.Namespace, Name: d.Of.Name, RunsIn: d.Of.Status.Namespace, Backups: list}, err
}

// find returns the backup with a name, which may be as `database-backups -o name` prints it.
func (l *DatabaseBackups) find(name string) (render.Backup, error) {
	var known []string
	for _, b := range l.Backups {
		if b.Name == name || backupResource(b.Method, b.Name) == name {
			return b, nil
		}
		known = append(known, b.Name)
	}
	if len(known) == 0 {
		return render.Backup{}, fmt.Errorf("%s has no backup %q: it has no backups (kubectl berth env backup-database %s)", environmentName(l.Name),
			name, l.Name)
	}
	return render.Backup{}, fmt.Errorf("%s has no backup %q: it has %s", environmentName(l.Name), name, strings.Join(known, ", "))
}

// backupResource names a backup as kubectl does.
func backupResource(method render.BackupMethod, name string) string {
	return printers.Resource(database.KindOf(method), name)
}

func showBackups(o *command.Options, list *DatabaseBackups) error {
	t := &printers.Table{Header: []string{"NAME", "METHOD", "STATE", "AGE", "SIZE", "MESSAGE"}}
	for i := range list.Backups {
		b := &list.Backups[i]
		t.Names = append(t.Names, backupResource(b.Method, b.Name))
		t.Add(b.Name, b.Method, b.State, o.Age(b.Created), b.Size, b.Message)
	}
	return o.PrintList(list, t, fmt.Sprintf("No backups found of the database of environment %s/%s.", list.Namespace, list.Name))
}

const (
	// databaseTimeout is the default of --timeout: a dump can take long.
	databaseTimeout      = time.Hour
	aboutDatabaseTimeout = "How long to wait at most. What was started continues after that."
)

// awaitBackup waits until a backup, or the Job that restores one, has ended, if requested.
// A snapshot that failed is retried by its controller, so only a failed dump ends the wait.
func (f *waitFlags) awaitBackup(ctx context.Context, o *command.Options, what string,
	read func(ctx context.Context) (render.Backup, error),
) error {
	if !f.wait {
		return nil
	}
	var last render.Backup
	err := f.await(ctx, what, func(ctx context.Context) (done bool, err error) {
		if last, err = read(ctx); err != nil {
			return false, err
		}
		if last.State == render.BackupFailed && last.Method == render.BackupDump {
			return false, fmt.Errorf("it failed: %s", last.Message)
		}
		return last.State == render.BackupReady, nil
	}, func() (state, message string) { return string(last.State), last.Message })
	if err != nil {
		return err
	}
	if o.ForPeople() {
		fmt.Fprintf(o.Out, "%s completed\n", what)
	}
	return nil
}
