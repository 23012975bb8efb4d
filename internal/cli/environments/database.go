// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/backup"
	"berth.dev/berth/internal/environments/schedule"
)

const aboutDatabaseBackups = `Lists the DatabaseBackups of an environment, the newest last. A backup can be restored if its phase is Completed. kubectl delete
databasebackup deletes a backup with its data.`

const databaseBackupsExamples = `  kubectl berth env database-backups shop
  kubectl berth env database-backups shop -o json`

// DatabaseBackups is what `env database-backups` shows.
type DatabaseBackups struct {
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	Backups   []DatabaseBackup `json:"backups"`
}

// DatabaseBackup sums up a DatabaseBackup.
type DatabaseBackup struct {
	Name     string                        `json:"name"`
	Schedule string                        `json:"schedule,omitempty"`
	Method   v1alpha1.DatabaseBackupMethod `json:"method"`
	Phase    v1alpha1.DatabaseBackupPhase  `json:"phase"`
	Size     string                        `json:"size,omitempty"`
	// Verified is true if the dump was restored into a scratch database.
	Verified  bool        `json:"verified"`
	Encrypted bool        `json:"encrypted"`
	Message   string      `json:"message,omitempty"`
	Created   metav1.Time `json:"created"`
}

var databaseBackupKind = command.Kind[*v1alpha1.DatabaseBackup, DatabaseBackup]{
	Kind: "DatabaseBackup", Resource: "databasebackups." + v1alpha1.GroupName, With: ", with environments",
	NewList: func() client.ObjectList { return &v1alpha1.DatabaseBackupList{} },
}

func newDatabaseBackups(o *command.Options) *cobra.Command {
	cmd := anEnvironment(o, "database-backups", "List the backups of an environment's database", aboutDatabaseBackups,
		databaseBackupsExamples,
		func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
			list, err := readBackups(ctx, c, env)
			if err != nil {
				return err
			}
			return showBackups(o, list)
		})
	o.WatchFlag(cmd)
	o.OutputFlag(cmd, printers.Wide, printers.JSON, printers.YAML, printers.Name)
	return cmd
}

// readBackups reads the backups of an environment, the newest last.
func readBackups(ctx context.Context, c client.Client, env *v1alpha1.Environment) (*DatabaseBackups, error) {
	all := &v1alpha1.DatabaseBackupList{}
	if err := c.List(ctx, all, client.InNamespace(env.Namespace)); err != nil {
		return nil, databaseBackupKind.Explain(err)
	}
	schedule.Sort(all.Items)
	out := &DatabaseBackups{Namespace: env.Namespace, Name: env.Name, Backups: []DatabaseBackup{}}
	for i := range slices.Backward(all.Items) {
		if b := &all.Items[i]; b.Spec.Environment == env.Name {
			out.Backups = append(out.Backups, summaryOf(b))
		}
	}
	return out, nil
}

func summaryOf(b *v1alpha1.DatabaseBackup) DatabaseBackup {
	s := DatabaseBackup{
		Name: b.Name, Schedule: b.Labels[v1alpha1.DatabaseScheduleLabel], Method: b.Status.Method, Phase: b.Status.Phase,
		Size:     b.Status.Size,
		Verified: b.Status.Verified, Encrypted: b.Status.Encrypted, Message: b.Status.Message, Created: b.CreationTimestamp,
	}
	if s.Method == "" {
		s.Method = b.Spec.Method
	}
	if s.Phase == "" {
		s.Phase, s.Message = v1alpha1.DatabaseBackupPending, noBackupController
	}
	return s
}

// noBackupController is the message of what no controller has seen.
const noBackupController = "no controller has reported anything yet (berth-environments)"

func showBackups(o *command.Options, list *DatabaseBackups) error {
	t := &printers.Table{Header: []string{"NAME", "METHOD", "PHASE", "AGE", "SIZE", "VERIFIED", "ENCRYPTED", "MESSAGE"}, Wide: []string{"SCHEDULE"}}
	for i := range list.Backups {
		b := &list.Backups[i]
		t.Names = append(t.Names, databaseBackupKind.Name(b.Name))
		t.Add(b.Name, b.Method, b.Phase, o.Age(b.Created), b.Size, b.Verified, b.Encrypted, b.Message, b.Schedule)
	}
	return o.PrintList(list, t, fmt.Sprintf("No backups found of the database of environment %s/%s.", list.Namespace, list.Name))
}

func operationName(kind, name string) string {
	return printers.Resource(v1alpha1.SchemeGroupVersion.WithKind(kind), name)
}

const (
	// databaseTimeout is the default of --timeout: a dump can take long.
	databaseTimeout      = time.Hour
	aboutDatabaseTimeout = "How long to wait at most. The operation continues after that."
)

// awaitOperation waits until a backup or a restore has ended, if requested.
func (f *waitFlags) awaitOperation(ctx context.Context, o *command.Options, what string,
	read func(ctx context.Context) (*v1alpha1.DatabaseOperationStatus, error),
) error {
	if !f.wait {
		return nil
	}
	last := &v1alpha1.DatabaseOperationStatus{}
	err := f.await(ctx, what, func(ctx context.Context) (done bool, err error) {
		if last, err = read(ctx); err != nil {
			return false, err
		}
		if last.Phase == v1alpha1.DatabaseBackupFailed {
			return false, fmt.Errorf("it failed: %s", last.Message)
		}
		return last.Phase == v1alpha1.DatabaseBackupCompleted, nil
	}, func() (state, message string) {
		if last.Phase == "" {
			return string(v1alpha1.DatabaseBackupPending), noBackupController
		}
		return string(last.Phase), last.Message
	})
	if err != nil {
		return err
	}
	if o.ForPeople() {
		fmt.Fprintf(o.Out, "%s completed\n", what)
	}
	return nil
}

// createObject creates an object, and prints its name or the object.
func createObject(ctx context.Context, o *command.Options, c client.Client, object client.Object, kind, dryRun string) error {
	name := operationName(kind, object.GetName())
	object.GetObjectKind().SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(kind))
	if err := command.Writer(c, dryRun, fieldOwner).Create(ctx, object); err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	switch {
	case o.ForPeople():
		fmt.Fprintf(o.Out, "%s created%s\n", name, command.DryRunText(dryRun))
	case o.Output == printers.Name:
		fmt.Fprintln(o.Out, name)
	}
	plain, err := backup.PlainObject(object)
	if err != nil {
		return err
	}
	return o.PrintObjects([]any{plain.Object})
}
