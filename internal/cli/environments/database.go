// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/render"
)

const aboutEnvDatabaseBackups = `Shows the backups of an environment's database, the newest last. What can be restored is Ready. A dump is shown as long as its Job
is there, a snapshot as long as its VolumeSnapshot is.`

const envDatabaseBackupsExamples = `  kubectl berth env database-backups shop
  kubectl berth env database-backups shop -o json`

// DatabaseBackups is what `env database-backups` shows.
type DatabaseBackups struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// RunsIn is the namespace of the backups.
	RunsIn  string          `json:"runsIn"`
	Backups []render.Backup `json:"backups"`
}

func newEnvDatabaseBackups(o *command.Options) *cobra.Command {
	cmd := anEnvironment(o, "database-backups", "The backups of an environment's database", aboutEnvDatabaseBackups, envDatabaseBackupsExamples,
		func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
			list, err := readBackups(o, ctx, c, env)
			if err != nil {
				return err
			}
			return showBackups(o, list)
		})
	o.OutputFlag(cmd, printers.JSON, printers.YAML, printers.Name)
	return cmd
}

// mayBackUp returns an error where an environment has no database that could be backed up.
func mayBackUp(env *v1alpha1.Environment) error {
	if err := render.May(env, render.VerbUpdate); err != nil {
		return fmt.Errorf("%s: %w", environmentName(env.Name), err)
	}
	switch {
	case env.Spec.Stack.Database == nil:
		return fmt.Errorf("%s has no database: spec.stack.database is absent", environmentName(env.Name))
	case env.Status.Namespace == "":
		return fmt.Errorf("%s has no database yet: status.namespace is empty", environmentName(env.Name))
	}
	return nil
}

// databaseServes returns an error where the database of an environment takes no connections. Whether the other components are
// ready does not count: they may well be what a restore should repair.
func databaseServes(env *v1alpha1.Environment) error {
	if env.Spec.RunPolicy == v1alpha1.RunPolicyStopped {
		return fmt.Errorf("spec.runPolicy is Stopped, and a dump needs a database that runs (kubectl berth env start %s --wait)", env.Name)
	}
	for i := range env.Status.Components {
		switch s := &env.Status.Components[i]; {
		case s.Name != render.Database:
		case s.Ready:
			return nil
		default:
			return fmt.Errorf("a dump needs a database that is ready, and status.components has database that is not: %s", strings.Trim(s.Reason+": "+s.Message, ": "))
		}
	}
	return fmt.Errorf("a dump needs a database that is ready, and status.phase is %s", render.PhaseOf(env))
}

// readBackups reads the backups of an environment's database, the newest last. A cluster that has no API of snapshots has none.
func readBackups(o *command.Options, ctx context.Context, c client.Client, env *v1alpha1.Environment) (*DatabaseBackups, error) {
	list := &DatabaseBackups{Namespace: env.Namespace, Name: env.Name, RunsIn: env.Status.Namespace, Backups: []render.Backup{}}
	if env.Status.Namespace == "" {
		return list, nil
	}
	in, mine := client.InNamespace(env.Status.Namespace), client.MatchingLabels{render.BackupOfLabel: env.Name}
	jobs, snapshots := &batchv1.JobList{}, &unstructured.UnstructuredList{}
	snapshots.SetGroupVersionKind(render.SnapshotKind.GroupVersion().WithKind(render.SnapshotKind.Kind + "List"))
	if err := c.List(ctx, jobs, in, mine); err != nil {
		return nil, fmt.Errorf("list Jobs of namespace %s: %w", env.Status.Namespace, err)
	}
	pods := backupPods(o, ctx, c, in, mine)
	for i := range jobs.Items {
		if jobs.Items[i].Labels[render.RestoredFromLabel] == "" {
			list.Backups = append(list.Backups, render.BackupOfJob(&jobs.Items[i], pods))
		}
	}
	switch err := c.List(ctx, snapshots, in, mine); {
	case err == nil, command.NoSuchKind(err):
	case apierrors.IsForbidden(err):
		o.Warn("not allowed: list VolumeSnapshots of namespace %s", env.Status.Namespace)
	default:
		return nil, fmt.Errorf("list VolumeSnapshots of namespace %s: %w", env.Status.Namespace, err)
	}
	for i := range snapshots.Items {
		list.Backups = append(list.Backups, render.BackupOfSnapshot(&snapshots.Items[i]))
	}
	slices.SortFunc(list.Backups, func(a, b render.Backup) int {
		return cmp.Or(a.Created.Compare(b.Created.Time), cmp.Compare(a.Name, b.Name))
	})
	return list, nil
}

// backupPods are the pods of the Jobs. They know more than the Jobs, which stand as they do without them.
func backupPods(o *command.Options, ctx context.Context, c client.Client, options ...client.ListOption) []corev1.Pod {
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, options...); err != nil {
		o.Warn("why a dump failed, and how large it is, cannot be told: list pods: %v", err)
	}
	return pods.Items
}

// find returns the backup that is named, as `database-backups -o name` prints it too.
func (l *DatabaseBackups) find(name string) (*render.Backup, error) {
	var known []string
	for i := range l.Backups {
		b := &l.Backups[i]
		if b.Name == name || backupResource(b.Method, b.Name) == name {
			return b, nil
		}
		known = append(known, b.Name)
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("%s has no backup %q: it has none (kubectl berth env backup-database %s)", environmentName(l.Name), name, l.Name)
	}
	return nil, fmt.Errorf("%s has no backup %q: there are %s", environmentName(l.Name), name, strings.Join(known, ", "))
}

// backupResource is how kubectl names a backup.
func backupResource(method render.BackupMethod, name string) string {
	if method == render.BackupSnapshot {
		return "volumesnapshot." + render.SnapshotKind.Group + "/" + name
	}
	return jobResource(name)
}

func jobResource(name string) string { return "job." + batchv1.GroupName + "/" + name }

func showBackups(o *command.Options, list *DatabaseBackups) error {
	if o.Output == printers.Name {
		for i := range list.Backups {
			fmt.Fprintln(o.Out, backupResource(list.Backups[i].Method, list.Backups[i].Name))
		}
		return nil
	}
	if done, err := o.Print(list); done {
		return err
	}
	if len(list.Backups) == 0 {
		fmt.Fprintf(o.ErrOut, "No backups found of the database of environment %s/%s.\n", list.Namespace, list.Name)
		return nil
	}
	t := &printers.Table{Header: []string{"NAME", "METHOD", "STATE", "AGE", "SIZE", "MESSAGE"}}
	for i := range list.Backups {
		b := &list.Backups[i]
		t.Add(b.Name, string(b.Method), string(b.State), printers.Age(o.Now(), b.Created.Time), b.Size, b.Message)
	}
	return t.Write(o.Out, false)
}
