// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/backup"
	"berth.dev/berth/internal/environments/change"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
)

const aboutCreate = `Creates an environment from a predefined stack (see kubectl berth env stacks). The whole stack is copied to the spec of the environment and
can be changed there. With --dry-run=client the command needs no cluster, and -o yaml prints a file to edit.`

const createExamples = `  kubectl berth env create shop --stack web-postgres
  kubectl berth env create shop --stack web-postgres --display-name "The shop"

  # Print a file to edit
  kubectl berth env create shop --stack postgres --dry-run=client -o yaml > shop.yaml`

// Stack is a predefined stack.
type Stack struct {
	Name        string                    `json:"name"`
	Version     string                    `json:"version"`
	Description string                    `json:"description"`
	Stack       v1alpha1.ApplicationStack `json:"stack"`
}

// Stacks is what `env stacks` shows.
type Stacks struct {
	Stacks []Stack `json:"stacks"`
}

func newStacks(o *command.Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "stacks",
		Short:   "List the predefined stacks",
		Long:    "Lists the predefined stacks of this version of the plugin. -o yaml prints all their fields. The command needs no cluster.",
		Example: "  kubectl berth env stacks\n  kubectl berth env stacks -o yaml",
		Args:    command.NoArguments,
		RunE:    func(*cobra.Command, []string) error { return showStacks(o, stacksOf(render.Stacks())) },
	}
	o.OutputFlag(cmd, printers.Wide, printers.JSON, printers.YAML, printers.Name)
	return cmd
}

func stacksOf(list []render.Stack) *Stacks {
	out := &Stacks{Stacks: make([]Stack, 0, len(list))}
	for _, s := range list {
		out.Stacks = append(out.Stacks, Stack{Name: s.Name, Version: s.Version, Description: s.Description, Stack: s.Stack})
	}
	return out
}

func showStacks(o *command.Options, s *Stacks) error {
	t := &printers.Table{Header: []string{"NAME", "VERSION", "COMPONENTS", "DESCRIPTION"}, Wide: []string{"IMAGES"}}
	for i := range s.Stacks {
		var names, images []string
		for _, c := range stack.Components(&s.Stacks[i].Stack) {
			names, images = append(names, c.Name), append(images, c.Container.Image)
		}
		t.Names = append(t.Names, s.Stacks[i].Name)
		t.Add(s.Stacks[i].Name, s.Stacks[i].Version, strings.Join(names, ","), s.Stacks[i].Description, strings.Join(images, ","))
	}
	return o.PrintList(s, t, "No stacks found.")
}

// createFlags are the flags of create.
type createFlags struct {
	stack, displayName, dryRun string
}

func newCreate(o *command.Options) *cobra.Command {
	f := &createFlags{}
	cmd := &cobra.Command{
		Use:               "create NAME --stack STACK",
		Short:             "Create an environment from a predefined stack",
		Long:              aboutCreate,
		Example:           createExamples,
		Args:              command.Names(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			env, err := environmentOfStack(args[0], f)
			if err != nil {
				return err
			}
			if env.Namespace, err = o.Namespace(); err != nil {
				return err
			}
			if f.dryRun == command.DryRunClient {
				return showCreated(o, env, f.dryRun)
			}
			c, err := o.Client()
			if err != nil {
				return err
			}
			return createEnvironment(cmd.Context(), o, c, env, f.dryRun)
		},
	}
	cmd.Flags().StringVar(&f.stack, "stack", "", "The stack, one of: "+strings.Join(stackNames(), ", ")+".")
	cmd.Flags().StringVar(&f.displayName, "display-name", "", "The display name: spec.displayName.")
	_ = cmd.MarkFlagRequired("stack") // fails for a flag that does not exist
	_ = cmd.RegisterFlagCompletionFunc("stack", cobra.FixedCompletions(stackNames(), cobra.ShellCompDirectiveNoFileComp))
	command.DryRunFlag(cmd, &f.dryRun)
	o.OutputFlag(cmd, printers.JSON, printers.YAML, printers.Name)
	return cmd
}

func stackNames() (names []string) {
	for _, s := range render.Stacks() {
		names = append(names, s.Name)
	}
	return names
}

// environmentOfStack makes an environment of a stack that is known by its name.
func environmentOfStack(name string, f *createFlags) (*v1alpha1.Environment, error) {
	stack, ok := render.FindStack(f.stack)
	if !ok {
		return nil, fmt.Errorf("--stack is %q: it must be one of %s", f.stack, strings.Join(stackNames(), ", "))
	}
	return &v1alpha1.Environment{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Environment"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.EnvironmentSpec{DisplayName: f.displayName, Stack: stack.Stack},
	}, nil
}

func createEnvironment(ctx context.Context, o *command.Options, c client.Client, env *v1alpha1.Environment, dryRun string) error {
	kind := env.TypeMeta
	render.Sign(env, change.CallerOf(ctx, c))
	err := command.Writer(c, dryRun, fieldOwner).Create(ctx, env)
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("environment %q already exists in namespace %s", env.Name, env.Namespace)
	case err != nil:
		return environmentKind.Explain(err)
	}
	env.TypeMeta = kind // a client does not keep it
	return showCreated(o, env, dryRun)
}

// showCreated prints the name or the object of what was created. What the API server adds is printed if it was requested.
func showCreated(o *command.Options, env *v1alpha1.Environment, dryRun string) error {
	if o.Output == printers.Name {
		fmt.Fprintln(o.Out, environmentKind.Name(env.Name))
		return nil
	}
	if o.Output == printers.JSON || o.Output == printers.YAML {
		u, err := backup.PlainObject(env)
		if err != nil {
			return err
		}
		_, err = o.Print(u.Object)
		return err
	}
	fmt.Fprintf(o.Out, "%s created%s\n", environmentKind.Name(env.Name), command.DryRunText(dryRun))
	return nil
}
