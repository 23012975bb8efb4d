// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/backup"
	"berth.dev/berth/internal/environments/change"
)

const aboutHistory = `Shows the stored revisions of an environment, the newest last: when each was created, by which client and which user, and what it changed.
The client is the field manager: berth-services is the gRPC service, kubectl-edit is kubectl. The user is known for the gRPC service and for
kubectl berth env; for other clients, the audit log of the API server has it. "*" marks the current revision. --revision N prints the spec of
a revision as YAML.`

const historyExamples = `  kubectl berth env history shop
  kubectl berth env history shop --revision 2`

// shownChanges is how many changes of a revision a table has, unless it is wide.
const shownChanges = 3

func newHistory(o *command.Options) *cobra.Command {
	var number int64
	var cmd *cobra.Command
	cmd = anEnvironment(o, "history", "Show the revisions of an environment", aboutHistory, historyExamples,
		func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
			h, err := change.Revisions(ctx, c, env)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("revision") {
				return showEnvironmentHistory(o, h)
			}
			r, err := h.Find(number)
			if err != nil {
				return err
			}
			return showSpec(o, &r.Spec)
		})
	cmd.Flags().Int64Var(&number, "revision", 0, "Print the spec of this revision.")
	o.OutputFlag(cmd, printers.Wide, printers.JSON, printers.YAML)
	return cmd
}

// showSpec prints a spec, as YAML unless the format is JSON.
func showSpec(o *command.Options, spec *v1alpha1.EnvironmentSpec) error {
	if done, err := o.Print(spec); done {
		return err
	}
	out, err := yaml.Marshal(spec)
	if err == nil {
		_, err = o.Out.Write(out)
	}
	return err
}

func showEnvironmentHistory(o *command.Options, h *change.History) error {
	t := &printers.Table{Header: []string{"REVISION", "TIME", "AGE", "CLIENT", "ACTOR", "CHANGES"}}
	for i := range h.Revisions {
		r := &h.Revisions[i]
		name := fmt.Sprint(r.Revision)
		if r.Current {
			name += "*"
		}
		changes := r.Changes
		if more := len(changes) - shownChanges; more > 0 && o.Output != printers.Wide {
			changes = append(slices.Clone(changes[:shownChanges]), fmt.Sprintf("and %d more", more))
		}
		t.Add(name, r.Created.UTC().Format(time.RFC3339), o.Age(r.Created), r.Client, r.Actor, strings.Join(changes, "; "))
	}
	return o.PrintList(h, t, fmt.Sprintf("Environment %s/%s has no revisions yet: the controller creates them.", h.Namespace, h.Name))
}

const aboutRollback = `Gives an environment the spec of a revision, and prints what changes. The rollback does not start, stop or restart the environment. It creates
a new revision. Secrets are not part of a spec and do not change.`

const rollbackExamples = `  # Show what would change
  kubectl berth env rollback shop --to-revision 2 --dry-run=client
  kubectl berth env rollback shop --to-revision 2`

func newRollback(o *command.Options) *cobra.Command {
	var revision int64
	var dryRun string
	cmd := anEnvironment(o, "rollback", "Give an environment the spec of a revision", aboutRollback, rollbackExamples,
		func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
			return runRollback(ctx, o, c, env, revision, dryRun)
		})
	cmd.Flags().Int64Var(&revision, "to-revision", 0, "The revision, as history lists it.")
	_ = cmd.MarkFlagRequired("to-revision") // fails for a flag that does not exist
	command.DryRunFlag(cmd, &dryRun)
	return cmd
}

func runRollback(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment, revision int64, dryRun string) error {
	r, changes, err := change.Rollback(ctx, command.Writer(c, dryRun, fieldOwner), env, revision)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		fmt.Fprintf(o.Out, "%s already has the spec of revision %d\n", environmentKind.Name(env.Name), revision)
		return nil
	}
	fmt.Fprintf(o.Out, "%s rolled back to revision %d%s\n", environmentKind.Name(env.Name), revision, command.DryRunText(dryRun))
	for _, change := range changes {
		fmt.Fprintf(o.Out, "  %s\n", strings.ReplaceAll(change, "\n", " "))
	}
	for _, name := range backup.MissingSecrets(ctx, c, env.Namespace, backup.SecretsOf(&r.Spec), o.Warn) {
		o.Warn("Secret %[2]s/%[3]s of revision %[1]d does not exist: the environment does not run without it", revision, env.Namespace,
			name)
	}
	return nil
}
