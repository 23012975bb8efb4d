// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// completionTimeout is how long a shell waits for names.
const completionTimeout = 3 * time.Second

// CompleteFirst completes the first argument with the names of a list, which must be empty.
func (o *Options) CompleteFirst(list client.ObjectList) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return o.complete(list, toComplete)
	}
}

// complete lists names. What cannot be listed completes to nothing.
func (o *Options) complete(list client.ObjectList, prefix string) ([]string, cobra.ShellCompDirective) {
	var names []string
	err := o.CompleteWith(func(ctx context.Context, namespace string, c client.Client) error {
		if err := c.List(ctx, list, client.InNamespace(namespace), client.Limit(500)); err != nil {
			return err
		}
		return meta.EachListItem(list, func(item runtime.Object) error {
			if object, ok := item.(client.Object); ok && strings.HasPrefix(object.GetName(), prefix) {
				names = append(names, object.GetName())
			}
			return nil
		})
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}

// CompleteWith reads the cluster for a shell that waits.
func (o *Options) CompleteWith(read func(ctx context.Context, namespace string, c client.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout) // a shell has no context
	defer cancel()
	namespace, c, err := o.Cluster()
	if err != nil {
		return err
	}
	return read(ctx, namespace, c)
}

// CompleteNamespaces completes the value of a flag with the names of namespaces.
func (o *Options) CompleteNamespaces(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return o.complete(&corev1.NamespaceList{}, prefix)
}

// workloadKinds are the kinds that a shell completes before "/".
var workloadKinds = []string{"cronjob", "daemonset", "deployment", "job", "mix", "pod", "statefulset"}

// CompleteTargets completes NAME from a list, and KIND/NAME from the objects of the kind. With a nil list there is no NAME alone.
func (o *Options) CompleteTargets(list client.ObjectList) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if word, name, has := strings.Cut(prefix, "/"); has {
			return o.completeKind(word, name)
		}
		if list != nil {
			if names, directive := o.complete(list, prefix); len(names) > 0 {
				return names, directive
			}
		}
		var kinds []string
		for _, kind := range workloadKinds {
			if strings.HasPrefix(kind, prefix) {
				kinds = append(kinds, kind+"/")
			}
		}
		return kinds, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// completeKind completes the names of a kind, with the kind as the user wrote it.
func (o *Options) completeKind(word, prefix string) ([]string, cobra.ShellCompDirective) {
	list := &metav1.PartialObjectMetadataList{}
	err := o.CompleteWith(func(_ context.Context, _ string, c client.Client) error {
		kind, err := c.RESTMapper().KindFor(schema.ParseGroupResource(strings.ToLower(word)).WithVersion(""))
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names, directive := o.complete(list, prefix)
	for i := range names {
		names[i] = word + "/" + names[i]
	}
	return names, directive
}
