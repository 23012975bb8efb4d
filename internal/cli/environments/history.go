// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/backup"
	"berth.dev/berth/internal/environments/change"
	"berth.dev/berth/internal/environments/render"
)

const aboutHistory = `Shows the stored revisions of an environment, the newest last: when each was created, by which client and which user, and what it changed.
The client is the field manager: berth-services is the gRPC service, kubectl-edit is kubectl. The user is known for the gRPC service and for
kubectl berth env; for other clients, the audit log of the API server has it. "*" marks the current revision. --revision N prints the spec of
a revision as YAML.`

const historyExamples = `  kubectl berth env history shop
  kubectl berth env history shop --revision 2`

// shownChanges is how many changes of a revision a table has, unless it is wide.
const shownChanges = 3

// History is what `env history` shows.
type History struct {
	Namespace string     `json:"namespace"`
	Name      string     `json:"name"`
	Revisions []Revision `json:"revisions"`
}

// Revision is a spec that an environment had.
type Revision struct {
	Revision int64 `json:"revision"`
	// Current is set for the revision that the environment has.
	Current bool        `json:"current,omitempty"`
	Created metav1.Time `json:"created"`
	// Client is the field manager of the client that requested it: berth-services is the gRPC service.
	Client string `json:"client,omitempty"`
	// Actor is the user who requested it, "" if the client does not record users.
	Actor string `json:"actor,omitempty"`
	// Changes are those since the one before; none for the first.
	Changes []string                 `json:"changes,omitempty"`
	Spec    v1alpha1.EnvironmentSpec `json:"spec"`
}

func newHistory(o *command.Options) *cobra.Command {
	var number int64
	var cmd *cobra.Command
	cmd = anEnvironment(o, "history", "Show the revisions of an environment", aboutHistory, historyExamples,
		func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
			h, err := readHistory(ctx, c, env)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("revision") {
				return showEnvironmentHistory(o, h)
			}
			r, err := h.find(number)
			if err != nil {
				return err
			}
			return showSpec(o, &r.Spec)
		})
	cmd.Flags().Int64Var(&number, "revision", 0, "Print the spec of this revision.")
	o.OutputFlag(cmd, printers.Wide, printers.JSON, printers.YAML)
	return cmd
}

// readHistory reads the revisions of an environment.
func readHistory(ctx context.Context, c client.Client, env *v1alpha1.Environment) (*History, error) {
	var list appsv1.ControllerRevisionList
	if err := c.List(ctx, &list, client.InNamespace(env.Namespace), client.MatchingLabels(render.Labels(env))); err != nil {
		return nil, fmt.Errorf("list the revisions of %s: %w", environmentName(env.Name), err)
	}
	return environmentHistoryOf(env, list.Items)
}

// environmentHistoryOf are the revisions of an environment, the newest last. Others may have its labels.
func environmentHistoryOf(env *v1alpha1.Environment, list []appsv1.ControllerRevision) (*History, error) {
	h := &History{Namespace: env.Namespace, Name: env.Name, Revisions: []Revision{}}
	for i := range list {
		c := &list[i]
		if !metav1.IsControlledBy(c, env) {
			continue
		}
		r := Revision{
			Revision: c.Revision, Current: c.Revision == env.Status.Revision, Created: c.CreationTimestamp,
			Client: c.Annotations[v1alpha1.ClientAnnotation], Actor: c.Annotations[v1alpha1.ActorAnnotation],
		}
		if text := c.Annotations[v1alpha1.ChangesAnnotation]; text != "" {
			r.Changes = strings.Split(text, "\n")
		}
		if err := json.Unmarshal(c.Data.Raw, &r.Spec); err != nil {
			return nil, fmt.Errorf("read ControllerRevision %s/%s: %w", c.Namespace, c.Name, err)
		}
		h.Revisions = append(h.Revisions, r)
	}
	slices.SortFunc(h.Revisions, func(a, b Revision) int { return cmp.Compare(a.Revision, b.Revision) })
	return h, nil
}

// find returns a revision, or an error that names those that there are.
func (h *History) find(revision int64) (*Revision, error) {
	var known []string
	for i := range h.Revisions {
		if h.Revisions[i].Revision == revision {
			return &h.Revisions[i], nil
		}
		known = append(known, fmt.Sprint(h.Revisions[i].Revision))
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("%s has no revision %d: it has no revisions yet", environmentName(h.Name), revision)
	}
	return nil, fmt.Errorf("%s has no revision %d: it has %s", environmentName(h.Name), revision, strings.Join(known, ", "))
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

func showEnvironmentHistory(o *command.Options, h *History) error {
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
		back := rolledBack(e.Name, &e.Spec, &r.Spec)
		changes = render.Diff(&e.Spec, back)
		e.Spec = *back
		return nil
	}
	if _, err := change.Environment(ctx, command.Writer(c, dryRun, fieldOwner), env, once); err != nil {
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
		o.Warn("Secret %[2]s/%[3]s of revision %[1]d does not exist: the environment does not run without it", revision, env.Namespace,
			name)
	}
	return nil
}

// rolledBack is the spec of a revision, with runPolicy and restartedAt as they are now. Another restart than the
// last would replace all pods. Passwords and keys of the gRPC service stay as they are now: it deletes the Secret that an update
// replaces.
func rolledBack(id string, now, then *v1alpha1.EnvironmentSpec) *v1alpha1.EnvironmentSpec {
	out := then.DeepCopy()
	current := func(now, then *v1alpha1.EnvironmentSecret) *v1alpha1.EnvironmentSecret {
		if now == nil || then == nil || !render.IsCredentialsName(id, then.Name) || !render.IsCredentialsName(id, now.Name) {
			return then
		}
		return now.DeepCopy()
	}
	if d := out.Stack.Database; d != nil && now.Stack.Database != nil {
		d.SecretRef = current(now.Stack.Database.SecretRef, d.SecretRef)
	}
	if b := out.Stack.Backend; b != nil && now.Stack.Backend != nil {
		b.SecretRef = current(now.Stack.Backend.SecretRef, b.SecretRef)
	}
	out.RunPolicy, out.ForceStop, out.RestartedAt = now.RunPolicy, now.ForceStop, now.RestartedAt.DeepCopy()
	return out
}
