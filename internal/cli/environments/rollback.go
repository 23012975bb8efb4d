// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/render"
)

const aboutEnvRollback = `Gives an environment the spec that it had in a revision, and says what that changes. Whether it runs stays as it is now: a
rollback neither starts nor stops nor restarts it. The rollback is a revision of its own. Secrets are not part of a spec, and stay.`

const envRollbackExamples = `  # What would it change?
  kubectl berth env rollback shop --to-revision 2 --dry-run=client
  kubectl berth env rollback shop --to-revision 2`

func newEnvRollback(o *command.Options) *cobra.Command {
	var revision int64
	var dryRun string
	cmd := anEnvironment(o, "rollback", "Give an environment the spec of a revision", aboutEnvRollback, envRollbackExamples, nil)
	run := anEnvironment(o, "", "", "", "", func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
		return runRollback(o, ctx, c, env, revision, dryRun)
	}).RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := command.CheckDryRun(dryRun); err != nil {
			return err
		}
		return run(cmd, args)
	}
	cmd.Flags().Int64Var(&revision, "to-revision", 0, "The revision, one of those that history shows.")
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
	if dryRun == command.DryRunClient {
		err = once(env.DeepCopy())
	} else {
		var options []client.PatchOption
		if dryRun == command.DryRunServer {
			options = append(options, client.DryRunAll)
		}
		_, err = changeEnvironment(ctx, c, env, once, options...)
	}
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		fmt.Fprintf(o.Out, "%s has the spec of revision %d already\n", environmentName(env.Name), revision)
		return nil
	}
	fmt.Fprintf(o.Out, "%s rolled back to revision %d%s\n", environmentName(env.Name), revision, command.DryRunText(dryRun))
	for _, change := range changes {
		fmt.Fprintf(o.Out, "  %s\n", strings.ReplaceAll(change, "\n", " "))
	}
	for _, name := range missingSecrets(o, ctx, c, env.Namespace, secretsOf(&r.Spec)) {
		o.Warn("revision %d names Secret %s/%s, which is not there: without it the environment does not run", revision, env.Namespace, name)
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

// secretsOf are the names of the Secrets that a spec names.
func secretsOf(spec *v1alpha1.EnvironmentSpec) (names []string) {
	if d := spec.Stack.Database; d != nil && d.SecretRef != nil {
		names = append(names, d.SecretRef.Name)
	}
	if b := spec.Stack.Backend; b != nil && b.SecretRef != nil {
		names = append(names, b.SecretRef.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// missingSecrets are those of some Secrets that are not there. That it cannot be told is said.
func missingSecrets(o *command.Options, ctx context.Context, c client.Client, namespace string, names []string) (missing []string) {
	for _, name := range names {
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.Secret{})
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, name)
		case err != nil:
			o.Warn("whether there is a Secret %s/%s cannot be told: %v", namespace, name, err)
		}
	}
	return missing
}
