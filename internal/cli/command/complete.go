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
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// CompletionTimeout is how long a shell waits for names.
const CompletionTimeout = 3 * time.Second

type Completion = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// CompletePods and completeMixes complete the first argument.
func (o *Options) CompletePods() Completion {
	return o.CompleteFirst(func() client.ObjectList { return &corev1.PodList{} })
}

func (o *Options) CompleteMixes() Completion {
	return o.CompleteFirst(func() client.ObjectList { return &v1alpha1.CapacityMixList{} })
}

func (o *Options) CompleteFirst(list func() client.ObjectList) Completion {
	return func(_ *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		namespace, err := o.Namespace()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return o.Complete(list(), namespace, toComplete)
	}
}

// Complete lists names. What cannot be listed completes to nothing.
func (o *Options) Complete(list client.ObjectList, namespace, prefix string) ([]string, cobra.ShellCompDirective) {
	c, err := o.Client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(context.Background(), CompletionTimeout) // a shell has no context
	defer cancel()
	if err := c.List(ctx, list, client.InNamespace(namespace), client.Limit(500)); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(client.Object); ok && strings.HasPrefix(object.GetName(), prefix) {
			names = append(names, object.GetName())
		}
		return nil
	})
	slices.Sort(names)
	return names, cobra.ShellCompDirectiveNoFileComp
}
