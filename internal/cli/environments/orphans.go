// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/render"
)

const aboutEnvOrphans = `Finds what was made for environments that are not there any more: namespaces, and objects in other namespaces, by their
labels berth.dev/environment and berth.dev/environment-namespace. It looks at the whole cluster; with -n, for what is of environments of that
namespace. What is in a namespace that is an orphan goes with it, and is not shown.

It only lists, unless --delete is given. What is Retained is kept because of the volumes in it, as its environment requested, or is a volume
claim: --delete leaves it alone without --include-retained. A namespace that has the labels and not a name that Berth gives is Foreign, and left alone always.`

const envOrphansExamples = `  # What is there? Nothing is deleted.
  kubectl berth env orphans

  # Delete it, but for volumes
  kubectl berth env orphans --delete`

// OrphanState says what may become of an orphan.
type OrphanState string

// States of orphans.
const (
	// OrphanLeft is what no one needs.
	OrphanLeft OrphanState = "Orphan"
	// OrphanRetained is what has volumes that someone may want.
	OrphanRetained OrphanState = "Retained"
	// OrphanTerminating is on its way out.
	OrphanTerminating OrphanState = "Terminating"
	// OrphanForeign is a namespace that Berth did not name.
	OrphanForeign OrphanState = "Foreign"
)

// Orphans is what `env orphans` shows.
type Orphans struct {
	Orphans []Orphan `json:"orphans"`
}

// Orphan is something that was made for an environment that is not there.
type Orphan struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace is "" for a namespace.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Environment is the namespace and the name of the Environment.
	Environment string      `json:"environment"`
	State       OrphanState `json:"state"`
	// Claims are the volume claims in a namespace.
	Claims  int         `json:"claims,omitempty"`
	Created metav1.Time `json:"created"`
	UID     types.UID   `json:"uid"`
}

// envOrphans are the flags of orphans.
type envOrphans struct{ remove, retained bool }

func newEnvOrphans(o *command.Options) *cobra.Command {
	f := &envOrphans{}
	cmd := &cobra.Command{
		Use:     "orphans",
		Short:   "What is left of environments that are not there any more",
		Long:    aboutEnvOrphans,
		Example: envOrphansExamples,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.retained && !f.remove {
				return fmt.Errorf("--include-retained requires --delete")
			}
			namespace, c, err := o.Cluster()
			if err != nil {
				return err
			}
			if o.Flags.Namespace == nil || *o.Flags.Namespace == "" {
				namespace = ""
			}
			return runOrphans(o, cmd.Context(), c, namespace, f)
		},
	}
	cmd.Flags().BoolVar(&f.remove, "delete", false, "Delete what is an orphan.")
	cmd.Flags().BoolVar(&f.retained, "include-retained", false, "With --delete: delete what is retained too, and the volumes with it.")
	o.OutputFlag(cmd, printers.JSON, printers.YAML, printers.Name)
	return cmd
}

func runOrphans(o *command.Options, ctx context.Context, c client.Client, namespace string, f *envOrphans) error {
	// Objects first: one that is made in between is of an environment that is listed then.
	made, complete, err := madeForEnvironments(o, ctx, c)
	if err != nil {
		return err
	}
	var list v1alpha1.EnvironmentList
	if err := c.List(ctx, &list); err != nil {
		return unreadableEnvironment(err)
	}
	found := orphansOf(made, list.Items, namespace)
	if !f.remove {
		return showOrphans(o, found, complete)
	}
	return deleteOrphans(o, ctx, c, found, f.retained)
}

// orphansOf are those of some objects whose environment is not there. What is in a namespace that is one is left out.
func orphansOf(made []metav1.PartialObjectMetadata, environments []v1alpha1.Environment, namespace string) *Orphans {
	gone := withoutEnvironment(made, environments, namespace)
	out := &Orphans{Orphans: []Orphan{}}
	whole := map[string]bool{}
	for i := range gone {
		if m := &gone[i]; m.Kind == namespaceKind {
			orphan := orphanOf(m)
			orphan.State = namespaceState(m)
			orphan.Claims = claimsIn(made, m.Name)
			whole[m.Name] = orphan.State != OrphanForeign
			out.Orphans = append(out.Orphans, orphan)
		}
	}
	for i := range gone {
		// What has an owner goes with it.
		if m := &gone[i]; m.Kind != namespaceKind && !whole[m.Namespace] && metav1.GetControllerOf(m) == nil {
			out.Orphans = append(out.Orphans, orphanOf(m))
		}
	}
	slices.SortStableFunc(out.Orphans, func(a, b Orphan) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// withoutEnvironment are the objects whose labels name an environment that is not there, of a namespace if it is not "".
func withoutEnvironment(made []metav1.PartialObjectMetadata, environments []v1alpha1.Environment, namespace string) []metav1.PartialObjectMetadata {
	there := map[string]bool{}
	for i := range environments {
		there[environments[i].Namespace+"/"+environments[i].Name] = true
	}
	return slices.DeleteFunc(slices.Clone(made), func(m metav1.PartialObjectMetadata) bool {
		home, id := m.Labels[v1alpha1.EnvironmentNamespaceLabel], m.Labels[v1alpha1.EnvironmentLabel]
		return home == "" || id == "" || there[home+"/"+id] || namespace != "" && home != namespace
	})
}

func orphanOf(m *metav1.PartialObjectMetadata) Orphan {
	out := Orphan{
		APIVersion: m.APIVersion, Kind: m.Kind, Namespace: m.Namespace, Name: m.Name, UID: m.UID, Created: m.CreationTimestamp, State: OrphanLeft,
		Environment: m.Labels[v1alpha1.EnvironmentNamespaceLabel] + "/" + m.Labels[v1alpha1.EnvironmentLabel],
	}
	switch {
	case m.DeletionTimestamp != nil:
		out.State = OrphanTerminating
	case m.Kind == claimKind, m.Labels[v1alpha1.RetainedLabel] == "true":
		// A controller that deletes an environment deletes its claims too, unless they should stay.
		out.State = OrphanRetained
	}
	return out
}

// namespaceState says what may become of a namespace. Anybody may put labels on one; only Berth names them after a hash.
func namespaceState(m *metav1.PartialObjectMetadata) OrphanState {
	home, id := m.Labels[v1alpha1.EnvironmentNamespaceLabel], m.Labels[v1alpha1.EnvironmentLabel]
	switch {
	case m.DeletionTimestamp != nil:
		return OrphanTerminating
	case !strings.HasSuffix(m.Name, render.NamespaceOf("", home, id)):
		return OrphanForeign
	case m.Labels[v1alpha1.RetainedLabel] == "true":
		return OrphanRetained
	}
	return OrphanLeft
}

// claimsIn is how many volume claims of environments a namespace has.
func claimsIn(made []metav1.PartialObjectMetadata, namespace string) (n int) {
	for i := range made {
		if made[i].Kind == claimKind && made[i].Namespace == namespace {
			n++
		}
	}
	return n
}

func showOrphans(o *command.Options, list *Orphans, complete bool) error {
	if o.Output == printers.Name {
		for i := range list.Orphans {
			fmt.Fprintln(o.Out, list.Orphans[i].resource())
		}
		return nil
	}
	if done, err := o.Print(list); done {
		return err
	}
	if len(list.Orphans) == 0 {
		if complete {
			fmt.Fprintln(o.ErrOut, "No orphans found.")
		} else {
			fmt.Fprintln(o.ErrOut, "No orphans found among what could be read.")
		}
		return nil
	}
	t := &printers.Table{Header: []string{"IN", "OBJECT", "ENVIRONMENT", "STATE", "CLAIMS", "AGE"}}
	for i := range list.Orphans {
		a := &list.Orphans[i]
		t.Add(a.Namespace, a.Kind+"/"+a.Name, a.Environment, string(a.State), printers.Number(a.Claims), printers.Age(o.Now(), a.Created.Time))
	}
	return t.Write(o.Out, false)
}
