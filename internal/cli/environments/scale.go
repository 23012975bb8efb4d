// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/change"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
)

const aboutScale = `Sets the number of replicas of components: frontend, backend, or additional services by their names. A database has one replica and cannot be
scaled, nor can a component whose spec has autoscaling. Either all named components change or none. A component of a stopped environment gets
its replicas when the environment starts.`

const scaleExamples = `  kubectl berth env scale shop backend=3
  kubectl berth env scale shop backend=3 frontend=2 redis-cache=1 --wait`

// scaleFlags are the flags of scale.
type scaleFlags struct {
	dryRun string
	waitFlags
}

func newScale(o *command.Options) *cobra.Command {
	f := &scaleFlags{waitFlags: waitFlags{poll: pollInterval}}
	var wanted []change.Replicas
	cmd := anEnvironment(o, "scale", "Set the number of replicas of components", aboutScale, scaleExamples,
		func(ctx context.Context, c client.Client, env *v1alpha1.Environment) error {
			return scaleEnvironment(ctx, o, c, env, wanted, f)
		})
	cmd.Use += " COMPONENT=REPLICAS..."
	cmd.Args = command.Arguments(2, -1, "argument")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		return completeScale(o, cmd, args, toComplete)
	}
	cmd.PreRunE = func(_ *cobra.Command, args []string) (err error) {
		wanted, err = parseReplicas(args[1:])
		return err
	}
	f.addTo(cmd, aboutWait, environmentTimeout, aboutTimeout)
	command.DryRunFlag(cmd, &f.dryRun)
	return cmd
}

// completeScale completes the environment, and then its components.
func completeScale(o *command.Options, cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return environmentKind.Complete(o)(cmd, args, toComplete)
	}
	names, directive := completeComponents(o, args[0], toComplete)
	for i := range names {
		names[i] += "="
	}
	return slices.DeleteFunc(names, func(n string) bool { return n == stack.Database+"=" }), directive | cobra.ShellCompDirectiveNoSpace
}

// completeComponents completes the name of a component of an environment.
func completeComponents(o *command.Options, name, prefix string) (names []string, _ cobra.ShellCompDirective) {
	err := o.CompleteWith(func(ctx context.Context, namespace string, c client.Client) error {
		env, err := environmentNamed(ctx, c, namespace, name)
		if err == nil {
			names = slices.DeleteFunc(render.ComponentNames(&env.Spec.Stack), func(n string) bool { return !strings.HasPrefix(n, prefix) })
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// parseReplicas reads COMPONENT=REPLICAS words.
func parseReplicas(words []string) ([]change.Replicas, error) {
	var out []change.Replicas
	for _, word := range words {
		name, text, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q must be COMPONENT=REPLICAS, such as backend=3", word)
		}
		r, err := replicasOf(name, text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(r change.Replicas) bool { return r.Component == name }) {
			return nil, fmt.Errorf("component %s is given twice", name)
		}
		out = append(out, r)
	}
	return out, nil
}

// replicasOf reads the number of replicas of a component.
func replicasOf(component, text string) (change.Replicas, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || n > stack.MaxReplicas {
		return change.Replicas{}, fmt.Errorf("REPLICAS of %s is %q: it must be a number from 0 to %d", component, text, stack.MaxReplicas)
	}
	return change.Replicas{Component: component, Replicas: int32(n)}, nil
}

func scaleEnvironment(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment, wanted []change.Replicas,
	f *scaleFlags,
) error {
	did, after, err := change.Scale(ctx, command.Writer(c, f.dryRun, fieldOwner), env, wanted)
	if err != nil {
		return err
	}
	for _, s := range did {
		fmt.Fprintf(o.Out, "%s %s%s\n", environmentKind.Name(env.Name), scaledText(s), command.DryRunText(f.dryRun))
	}
	if command.IsDryRun(f.dryRun) {
		return nil
	}
	return f.awaitEnvironment(ctx, o, c, after)
}

func scaledText(s change.Scaled) string {
	if s.Before != s.After {
		return fmt.Sprintf("%s scaled from %d to %d", s.Component, s.Before, s.After)
	}
	return fmt.Sprintf("%s already has %s", s.Component, printers.Count(int(s.Before), "replica"))
}
