// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
)

// named reads an environment by its key.
func named(ctx context.Context, o *command.Options, key client.ObjectKey) (client.Client, *v1alpha1.Environment, error) {
	c, err := o.Client()
	if err != nil {
		return nil, nil, err
	}
	env, err := environmentNamed(ctx, c, key.Namespace, key.Name)
	return c, env, err
}

// Logs prints the last lines of each log of an environment, and with follow those that are written until the context ends. A component
// of "" is all.
func Logs(ctx context.Context, o *command.Options, key client.ObjectKey, component string, tail int64, follow bool) error {
	c, env, err := named(ctx, o, key)
	if err != nil {
		return err
	}
	f := &logsFlags{poll: envFollow, component: component, tail: tail, follow: follow}
	if f.open, err = openLogs(o); err != nil {
		return err
	}
	return runLogs(ctx, o, c, env, f)
}

// Revisions prints the revisions of an environment, with all their changes.
func Revisions(ctx context.Context, o *command.Options, key client.ObjectKey) error {
	c, env, err := named(ctx, o, key)
	if err != nil {
		return err
	}
	h, err := readHistory(ctx, c, env)
	if err != nil {
		return err
	}
	o.Output = printers.Wide
	return showEnvironmentHistory(o, h)
}

// Backups prints the backups of the database of an environment.
func Backups(ctx context.Context, o *command.Options, key client.ObjectKey) error {
	c, env, err := named(ctx, o, key)
	if err != nil {
		return err
	}
	list, err := readBackups(ctx, c, env)
	if err != nil {
		return err
	}
	return showBackups(o, list)
}

// Rollback gives an environment the spec of a revision, unless it is a preview, and prints what changes.
func Rollback(ctx context.Context, o *command.Options, key client.ObjectKey, revision int64, preview bool) error {
	c, env, err := named(ctx, o, key)
	if err != nil {
		return err
	}
	dryRun := command.DryRunNone
	if preview {
		dryRun = command.DryRunClient
	}
	return runRollback(ctx, o, c, env, revision, dryRun)
}

// Scale sets the number of replicas of a component of an environment.
func Scale(ctx context.Context, o *command.Options, key client.ObjectKey, component, replicas string) error {
	wanted, err := replicasOf(component, replicas)
	if err != nil {
		return err
	}
	c, env, err := named(ctx, o, key)
	if err != nil {
		return err
	}
	return scaleEnvironment(ctx, o, c, env, []componentReplicas{wanted}, &waitFlags{})
}

// BackUpDatabase creates a DatabaseBackup of an environment.
func BackUpDatabase(ctx context.Context, o *command.Options, key client.ObjectKey) error {
	c, env, err := named(ctx, o, key)
	if err != nil {
		return err
	}
	return backupDatabase(ctx, o, c, env, &backupDatabaseFlags{method: "auto", dryRun: command.DryRunNone})
}
