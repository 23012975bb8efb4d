// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/backup"
	"berth.dev/berth/internal/environments/render"
)

const aboutRollback = `Gives an environment the spec of a revision, and prints what changes. The rollback does not start, stop or restart the environment. It creates
a new revision. Secrets are not part of a spec and do not change.`

const rollbackExamples = `  # Show what would change
  kubectl berth env rollback shop --to-revision 2 --dry-run=client
  kubectl berth env rollback shop --to-revision 2`

func newRollback(o *command.Options) *cobra.Command {
	var revision int64
	var dryRun string
	cmd := anEnvironment(o, "rollback", "Give an environment the spec of a revision", aboutRollback, rollbackExamples, nil)
	run := anEnvironment(o, "", "", "", "", func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
		return runRollback(o, ctx, c, env, revision, dryRun)
	}).RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := command.CheckDryRun(dryRun); err != nil {
			return err
		}
		return run(cmd, args)
	}
	cmd.Flags().Int64Var(&revision, "to-revision", 0, "The revision, as history lists it.")
	_ = cmd.MarkFlagRequired("to-revision") // fails for a flag that does not exist
	command.DryRunFlag(cmd, &dryRun)
	return cmd
}

func runRollback(o *command.Options, ctx context.Context, c client.Client, env *v1alpha1.Environment, revision int64, dryRun string) error {
	h, err := readHistory(ctx, c, env)
	if err != nil {
		return err
	}
	r, err := h.find(revision)
	if err != nil {
		return err
	}
	var changes []string
	once := func(e *v1alpha1.Environment) error {
		if err := render.May(e, render.VerbUpdate); err != nil {
			return err
		}
		back := rolledBack(&e.Spec, &r.Spec)
		changes = render.Diff(&e.Spec, back)
		e.Spec = *back
		return nil
	}
	if _, err := changeEnvironment(ctx, command.Writer(c, dryRun, fieldOwner), env, once); err != nil {
		return err
	}
	if len(changes) == 0 {
		fmt.Fprintf(o.Out, "%s already has the spec of revision %d\n", environmentName(env.Name), revision)
		return nil
	}
	fmt.Fprintf(o.Out, "%s rolled back to revision %d%s\n", environmentName(env.Name), revision, command.DryRunText(dryRun))
	for _, change := range changes {
		fmt.Fprintf(o.Out, "  %s\n", strings.ReplaceAll(change, "\n", " "))
	}
	for _, name := range backup.MissingSecrets(ctx, c, env.Namespace, backup.SecretsOf(&r.Spec), o.Warn) {
		o.Warn("Secret %[2]s/%[3]s of revision %[1]d does not exist: the environment does not run without it", revision, env.Namespace, name)
	}
	return nil
}

// rolledBack is the spec of a revision, with what says whether the environment runs as it is now. Another restart than the
// last would replace all pods.
func rolledBack(now, then *v1alpha1.EnvironmentSpec) *v1alpha1.EnvironmentSpec {
	out := then.DeepCopy()
	out.RunPolicy, out.ForceStop, out.RestartedAt = now.RunPolicy, now.ForceStop, now.RestartedAt.DeepCopy()
	return out
}
