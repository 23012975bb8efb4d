// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/kube/kinds"
)

// Kind has what the commands about the objects of one kind share. S is what they show of an object.
type Kind[T client.Object, S any] struct {
	// Kind is the name of the kind, and Resource that of the resource in messages. With is empty, or names the feature that has to be
	// enabled for it.
	Kind, Resource, With string
	// NewList returns an empty list.
	NewList func() client.ObjectList

	// The rest is for a list command. Key is the name of the list in JSON, and Nouns what a sentence calls the objects.
	Key, Nouns string
	// Of returns what is shown of an object.
	Of func(T) S
	// Observed is the generation that the status of an object is about, and Unseen what follows where it is not the last one.
	Observed func(T) int64
	Unseen   string
	// Header are the columns between NAME and AGE, and Wide those that -o wide adds. Row returns the cells of both.
	Header, Wide []string
	Row          func(o *Options, s *S) []any
}

// Explain explains an error that means that the API server does not serve the resource. It returns other errors as they are.
func (k *Kind[T, S]) Explain(err error) error {
	if !kinds.NotServed(err) {
		return err
	}
	return fmt.Errorf("the API server does not serve %s: is Berth installed%s?", k.Resource, k.With)
}

// Get reads an object by its name, which may be as -o name prints it.
func (k *Kind[T, S]) Get(ctx context.Context, c client.Client, namespace, name string) (T, error) {
	object, _ := reflect.TypeAssert[T](reflect.New(reflect.TypeFor[T]().Elem())) // a pointer to a struct
	name, err := k.nameIn(c, name)
	if err != nil {
		return object, err
	}
	return object, k.Explain(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object))
}

// nameIn is the name of NAME or KIND/NAME, where KIND is any word that the API server has for the kind.
func (k *Kind[T, S]) nameIn(c client.Client, arg string) (string, error) {
	target, err := TargetOf(arg)
	if err != nil || target.Kind == "" {
		return target.Name, err
	}
	resource, _, _ := strings.Cut(k.Resource, ".")
	for _, word := range []string{strings.ToLower(k.Kind), resource} {
		if strings.EqualFold(target.Kind, word) || strings.EqualFold(target.Kind, word+"."+v1alpha1.GroupName) {
			return target.Name, nil
		}
	}
	kind, err := c.RESTMapper().KindFor(schema.ParseGroupResource(strings.ToLower(target.Kind)).WithVersion(""))
	if err != nil || kind.Kind != k.Kind || kind.Group != v1alpha1.GroupName {
		return "", fmt.Errorf("%q is of another kind: it must be NAME or %s/NAME", arg, strings.ToLower(k.Kind))
	}
	return target.Name, nil
}

// Complete completes the first argument with names.
func (k *Kind[T, S]) Complete(o *Options) cobra.CompletionFunc {
	return o.CompleteFirst(k.NewList())
}

// Name is how kubectl names an object.
func (k *Kind[T, S]) Name(name string) string {
	return printers.Resource(v1alpha1.SchemeGroupVersion.WithKind(k.Kind), name)
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
func (k *Kind[T, S]) One(o *Options, cmd *cobra.Command, get Getter[T],
	run func(ctx context.Context, c client.Client, object T) error,
) *cobra.Command {
	cmd.Use += " NAME"
	cmd.Args, cmd.ValidArgsFunction = Names(1, 1), k.Complete(o)
	cmd.RunE = o.WithCluster(func(ctx context.Context, c client.Client, namespace string, args []string) error {
		object, err := get(ctx, c, namespace, args[0])
		if err != nil {
			return err
		}
		return run(ctx, c, object)
	})
	return cmd
}
