// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/kube/kinds"
)

// Kind has what the commands about the objects of one kind share.
type Kind[T client.Object, L client.ObjectList] struct {
	// Resource is the name of the resource in messages. With is empty, or names the feature that has to be enabled for it.
	Resource, With string
	// New and NewList return empty objects.
	New     func() T
	NewList func() L
}

// Explain explains an error that means that the API server does not serve the resource. It returns other errors as they are.
func (k *Kind[T, L]) Explain(err error) error {
	if !kinds.NotServed(err) {
		return err
	}
	return fmt.Errorf("the API server does not serve %s: is Berth installed%s?", k.Resource, k.With)
}

// Get reads an object by its name, which may be as -o name prints it.
func (k *Kind[T, L]) Get(ctx context.Context, c client.Client, namespace, name string) (T, error) {
	object := k.New()
	key := client.ObjectKey{Namespace: namespace, Name: name[strings.LastIndex(name, "/")+1:]}
	return object, k.Explain(c.Get(ctx, key, object))
}

// Complete completes the first argument with names.
func (k *Kind[T, L]) Complete(o *Options) cobra.CompletionFunc {
	return o.CompleteFirst(k.NewList())
}

// List is a command that shows the objects of a namespace, or of all.
func (k *Kind[T, L]) List(o *Options, cmd *cobra.Command, show func(list L, namespace string) error) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = o.WithCluster(func(ctx context.Context, c client.Client, namespace string, _ []string) error {
		list := k.NewList()
		if err := o.List(ctx, c, list, namespace); err != nil {
			return k.Explain(err)
		}
		return show(list, namespace)
	})
	o.AllNamespacesFlag(cmd)
	o.SelectorFlag(cmd)
	o.OutputFlag(cmd, printers.Wide, printers.JSON, printers.YAML, printers.Name)
	return cmd
}

// Instead has a command do something else where a flag is given.
func Instead(cmd *cobra.Command, flag *string, run func(cmd *cobra.Command, args []string) error) {
	usual := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *flag != "" {
			return run(cmd, args)
		}
		return usual(cmd, args)
	}
}

// Getter reads an object by its name.
type Getter[T client.Object] func(ctx context.Context, c client.Client, namespace, name string) (T, error)

// One is a command about one object, which get reads.
func (k *Kind[T, L]) One(o *Options, cmd *cobra.Command, get Getter[T],
	run func(ctx context.Context, c client.Client, object T) error,
) *cobra.Command {
	cmd.Use += " NAME"
	cmd.Args, cmd.ValidArgsFunction = cobra.ExactArgs(1), k.Complete(o)
	cmd.RunE = o.WithCluster(func(ctx context.Context, c client.Client, namespace string, args []string) error {
		object, err := get(ctx, c, namespace, args[0])
		if err != nil {
			return err
		}
		return run(ctx, c, object)
	})
	return cmd
}
