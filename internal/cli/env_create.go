// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
)

const aboutEnvCreate = `Makes an environment of a stack that is there to be used by its name (see kubectl berth env stacks). All that the stack says
is in the environment's spec, and may be changed there. With --dry-run=client it needs no cluster, and -o yaml prints a file to begin with.`

const envCreateExamples = `  kubectl berth env create shop --stack web-postgres
  kubectl berth env create shop --stack web-postgres --display-name "The shop"

  # Begin with a file
  kubectl berth env create shop --stack postgres --dry-run=client -o yaml > shop.yaml`

// EnvironmentStack is a precomposed stack.
type EnvironmentStack struct {
	Name        string                    `json:"name"`
	Version     string                    `json:"version"`
	Description string                    `json:"description"`
	Stack       v1alpha1.ApplicationStack `json:"stack"`
}

// EnvironmentStacks is what `env stacks` shows.
type EnvironmentStacks struct {
	Stacks []EnvironmentStack `json:"stacks"`
}

func newEnvStacks(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "stacks",
		Short:   "The stacks that environments can be made of by their names",
		Long:    "Shows the precomposed stacks that this plugin knows. -o yaml shows all that is in them. It needs no cluster.",
		Example: "  kubectl berth env stacks\n  kubectl berth env stacks -o yaml",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return o.showStacks(stacksOf(render.Stacks())) },
	}
	o.outputFlag(cmd, asWide, asJSON, asYAML, asName)
	return cmd
}

func stacksOf(list []render.Stack) *EnvironmentStacks {
	out := &EnvironmentStacks{Stacks: make([]EnvironmentStack, 0, len(list))}
	for _, s := range list {
		out.Stacks = append(out.Stacks, EnvironmentStack{Name: s.Name, Version: s.Version, Description: s.Description, Stack: s.Stack})
	}
	return out
}

func (o *options) showStacks(s *EnvironmentStacks) error {
	if o.output == asName {
		for i := range s.Stacks {
			fmt.Fprintln(o.Out, s.Stacks[i].Name)
		}
		return nil
	}
	if done, err := o.printed(s); done {
		return err
	}
	t := &table{header: []string{"NAME", "VERSION", "COMPONENTS", "DESCRIPTION"}}
	if o.output == asWide {
		t.header = append(t.header, "IMAGES")
	}
	for i := range s.Stacks {
		var names, images []string
		for _, c := range render.Components(&s.Stacks[i].Stack) {
			names, images = append(names, c.Name), append(images, c.Container.Image)
		}
		t.add(s.Stacks[i].Name, s.Stacks[i].Version, strings.Join(names, ","), s.Stacks[i].Description, strings.Join(images, ","))
	}
	return t.write(o.Out, false)
}

// envCreate are the flags of create.
type envCreate struct {
	stack, displayName, dryRun string
}

func newEnvCreate(o *options) *cobra.Command {
	f := &envCreate{}
	cmd := &cobra.Command{
		Use:               "create NAME --stack STACK",
		Short:             "Make an environment of a precomposed stack",
		Long:              aboutEnvCreate,
		Example:           envCreateExamples,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := knownDryRun(f.dryRun); err != nil {
				return err
			}
			env, err := environmentOfStack(args[0], f)
			if err != nil {
				return err
			}
			if env.Namespace, err = o.namespace(); err != nil {
				return err
			}
			if f.dryRun == dryRunClient {
				return o.showCreated(env, f.dryRun)
			}
			c, err := o.client()
			if err != nil {
				return err
			}
			return o.createEnvironment(cmd.Context(), c, env, f.dryRun)
		},
	}
	cmd.Flags().StringVar(&f.stack, "stack", "", "The stack, one of: "+strings.Join(stackNames(), ", ")+".")
	cmd.Flags().StringVar(&f.displayName, "display-name", "", "The name that people give it: spec.displayName.")
	_ = cmd.MarkFlagRequired("stack") // fails for a flag that does not exist
	_ = cmd.RegisterFlagCompletionFunc("stack", cobra.FixedCompletions(stackNames(), cobra.ShellCompDirectiveNoFileComp))
	dryRunFlag(cmd, &f.dryRun)
	o.outputFlag(cmd, asJSON, asYAML, asName)
	return cmd
}

func stackNames() (names []string) {
	for _, s := range render.Stacks() {
		names = append(names, s.Name)
	}
	return names
}

// environmentOfStack makes an environment of a stack that is known by its name.
func environmentOfStack(name string, f *envCreate) (*v1alpha1.Environment, error) {
	stack, ok := render.FindStack(f.stack)
	if !ok {
		return nil, fmt.Errorf("--stack is %q: there are %s", f.stack, strings.Join(stackNames(), ", "))
	}
	return &v1alpha1.Environment{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: environmentKind},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.EnvironmentSpec{DisplayName: f.displayName, Stack: stack.Stack},
	}, nil
}

func (o *options) createEnvironment(ctx context.Context, c client.Client, env *v1alpha1.Environment, dryRun string) error {
	kind := env.TypeMeta
	render.Sign(env, callerOf(ctx, c))
	err := c.Create(ctx, env, creates(dryRun)...)
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("there is an environment %q in namespace %s already", env.Name, env.Namespace)
	case err != nil:
		return unreadableEnvironment(err)
	}
	env.TypeMeta = kind // a client does not keep it
	return o.showCreated(env, dryRun)
}

// showCreated says what was made, or prints it. What the API server adds is printed if it was requested.
func (o *options) showCreated(env *v1alpha1.Environment, dryRun string) error {
	if o.output == asName {
		fmt.Fprintln(o.Out, environmentName(env.Name))
		return nil
	}
	if o.output == asJSON || o.output == asYAML {
		u, err := plainObject(env)
		if err != nil {
			return err
		}
		_, err = o.printed(u.Object)
		return err
	}
	fmt.Fprintf(o.Out, "%s created%s\n", environmentName(env.Name), dryRunText(dryRun))
	return nil
}
