// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/kube/kinds"
)

// ListAnnotation marks the commands that list a kind: its value is the resource. The tests of all lists find them by it.
const ListAnnotation = "berth.dev/list"

// List is a command that shows the objects of a namespace, or of all: those that keep returns true for, or with nil all.
func (k *Kind[T, S]) List(o *Options, cmd *cobra.Command, keep func(T) bool) *cobra.Command {
	cmd.Args = NoArguments
	cmd.Annotations = map[string]string{ListAnnotation: k.Resource}
	cmd.RunE = o.WithCluster(func(ctx context.Context, c client.Client, namespace string, _ []string) error {
		all, err := kinds.List[T](ctx, c, k.NewList(), client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: o.selector})
		if err != nil {
			return k.Explain(err)
		}
		if keep != nil {
			all = slices.DeleteFunc(all, func(object T) bool { return !keep(object) })
		}
		return k.Show(o, all, namespace)
	})
	o.WatchFlag(cmd)
	o.AllNamespacesFlag(cmd)
	o.SelectorFlag(cmd)
	o.OutputFlag(cmd, printers.Wide, printers.JSON, printers.YAML, printers.Name)
	return cmd
}

// Show prints objects of a namespace, or with "" of all, by namespace and name.
func (k *Kind[T, S]) Show(o *Options, objects []T, namespace string) error {
	slices.SortFunc(objects, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	t := &printers.Table{
		Header: slices.Concat([]string{"NAMESPACE", "NAME"}, k.Header, []string{"AGE"}), Wide: k.Wide, Namespaces: namespace == "",
	}
	l := list[S]{key: k.Key, items: make([]S, 0, len(objects)), notes: k.Notes(objects...)}
	for _, object := range objects {
		s := k.Of(object)
		l.items = append(l.items, s)
		t.Names = append(t.Names, k.Name(object.GetName()))
		cells := slices.Insert(k.Row(o, &s), len(k.Header), any(o.Age(object.GetCreationTimestamp())))
		t.Add(slices.Concat([]any{object.GetNamespace(), object.GetName()}, cells)...)
	}
	return o.PrintList(l, t, fmt.Sprintf("No %s found in %s.", k.Nouns, printers.InNamespace(namespace)), l.notes...)
}

// Notes name the objects whose status is not about their last generation.
func (k *Kind[T, S]) Notes(objects ...T) []string {
	reports := display.Reports{}
	for _, object := range objects {
		reports.Add(object.GetNamespace()+"/"+object.GetName(), display.Reported(k.Observed(object), object.GetGeneration()))
	}
	return reports.Notes(k.Unseen)
}

// list is a list as JSON has it. Its first field has a name of its kind.
type list[S any] struct {
	key   string
	items []S
	notes []string
}

// MarshalJSON implements json.Marshaler.
func (l list[S]) MarshalJSON() ([]byte, error) {
	out, err := json.Marshal(map[string][]S{l.key: l.items})
	if err != nil || len(l.notes) == 0 {
		return out, err
	}
	notes, err := json.Marshal(l.notes)
	return fmt.Appendf(out[:len(out)-1], `,"notes":%s}`, notes), err
}
