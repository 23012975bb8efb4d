// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/logs"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/change"
)

// Report prints something about an environment, or changes it and prints what it did.
type Report func(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment) error

// Run reads the environment of a key for a report.
func (r Report) Run(ctx context.Context, o *command.Options, key client.ObjectKey) error {
	c, err := o.Client()
	if err != nil {
		return err
	}
	env, err := environmentNamed(ctx, c, key.Namespace, key.Name)
	if err != nil {
		return err
	}
	return r(ctx, o, c, env)
}

// Logs prints the last lines of each log of an environment, and with follow those that are written until the context ends. A component
// of "" is all.
func Logs(component string, tail int64, follow bool) Report {
	return func(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment) (err error) {
		f := &logsFlags{poll: logs.Poll, component: component, tail: tail, follow: follow}
		if f.open, err = logs.FromAPI(o); err != nil {
			return err
		}
		return runLogs(ctx, o, c, env, f)
	}
}

// Revisions prints the revisions of an environment, with all their changes.
func Revisions(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment) error {
	h, err := change.Revisions(ctx, c, env)
	if err != nil {
		return err
	}
	o.Output = printers.Wide
	return showEnvironmentHistory(o, h)
}

// Backups prints the backups of the database of an environment.
func Backups(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment) error {
	list, err := readBackups(ctx, c, env)
	if err != nil {
		return err
	}
	return showBackups(o, list)
}

// Rollback gives an environment the spec of a revision, unless it is a preview, and prints what changes.
func Rollback(revision int32, preview bool) Report {
	dryRun := command.DryRunNone
	if preview {
		dryRun = command.DryRunClient
	}
	return func(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment) error {
		return runRollback(ctx, o, c, env, int64(revision), dryRun)
	}
}

// Scale sets the number of replicas of a component of an environment.
func Scale(component string, replicas int32) Report {
	return func(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment) error {
		wanted, err := replicasOf(component, strconv.Itoa(int(replicas)))
		if err != nil {
			return err
		}
		return scaleEnvironment(ctx, o, c, env, []change.Replicas{wanted}, &scaleFlags{})
	}
}

// BackUpDatabase creates a DatabaseBackup of an environment.
func BackUpDatabase(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment) error {
	return backupDatabase(ctx, o, c, env, &backupDatabaseFlags{method: "auto", dryRun: command.DryRunNone})
}
