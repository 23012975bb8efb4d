// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/orphans"
)

const aboutOrphans = `Lists what was created for environments that no longer exist: namespaces, and objects in other namespaces, by their labels
berth.dev/environment and berth.dev/environment-namespace. The command searches the whole cluster; with -n, for the environments of that
namespace only. What is in a namespace that is an orphan is deleted with it, and is not listed.

The command only lists orphans, unless --delete is given. The state Retained means that the orphan has volumes or is a volume claim: --delete
skips it without --include-retained. The state Foreign means that a namespace has the labels but not a name that Berth gives: it is never deleted.`

const orphansExamples = `  # List orphans. Nothing is deleted.
  kubectl berth env orphans

  # Delete them, except volumes
  kubectl berth env orphans --delete`

// Orphans is what `env orphans` shows.
type Orphans struct {
	Orphans []orphans.Orphan `json:"orphans"`
}

// orphansFlags are the flags of orphans.
type orphansFlags struct {
	remove, retained bool
	dryRun           string
}

func newOrphans(o *command.Options) *cobra.Command {
	f := &orphansFlags{}
	cmd := &cobra.Command{
		Use:     "orphans",
		Short:   "List or delete what is left of environments that no longer exist",
		Long:    aboutOrphans,
		Example: orphansExamples,
		Args:    command.NoArguments,
		PreRunE: func(*cobra.Command, []string) error {
			if f.retained && !f.remove {
				return errors.New("--include-retained requires --delete")
			}
			return nil
		},
		RunE: o.WithCluster(func(ctx context.Context, c client.Client, _ string, _ []string) error {
			return runOrphans(ctx, o, c, o.GivenNamespace(), f)
		}),
	}
	cmd.Flags().BoolVar(&f.remove, "delete", false, "Delete orphans.")
	cmd.Flags().BoolVar(&f.retained, "include-retained", false,
		"With --delete: also delete orphans in state Retained, and the volumes with them.")
	command.DryRunFlag(cmd, &f.dryRun)
	o.OutputFlag(cmd, printers.Wide, printers.JSON, printers.YAML, printers.Name)
	return cmd
}

func runOrphans(ctx context.Context, o *command.Options, c client.Client, namespace string, f *orphansFlags) error {
	found, err := orphans.Find(ctx, c, c.Scheme(), namespace, true)
	if err != nil {
		return environmentKind.Explain(err)
	}
	for _, kind := range found.Forbidden {
		o.Warn("not allowed: list %s of all namespaces", kind)
	}
	none := "No orphans found."
	if found.Incomplete {
		none = "No orphans found among what could be read."
	}
	if !f.remove {
		return showOrphans(o, found.Orphans, none)
	}
	if len(found.Orphans) == 0 {
		fmt.Fprintln(o.ErrOut, none)
	}
	return deleteOrphans(ctx, o, c, found.Orphans, f)
}

func showOrphans(o *command.Options, list []orphans.Orphan, none string) error {
	t := &printers.Table{Header: []string{"IN", "OBJECT", "ENVIRONMENT", "STATE", "CLAIMS", "AGE"}}
	for i := range list {
		a := &list[i]
		t.Names = append(t.Names, printers.Resource(a.GroupVersionKind(), a.Name))
		t.Add(a.Namespace, a.Kind+"/"+a.Name, a.Environment, a.State, a.Claims, o.Age(a.Created))
	}
	return o.PrintList(&Orphans{Orphans: list}, t, none)
}

// deleteOrphans deletes orphans, and prints a line for each.
func deleteOrphans(ctx context.Context, o *command.Options, c client.Client, list []orphans.Orphan, f *orphansFlags) error {
	failed := false
	for i := range list {
		a := &list[i]
		name := printers.Resource(a.GroupVersionKind(), a.Name)
		if a.Namespace != "" {
			name += " in namespace " + a.Namespace
		}
		outcome, err := deleteOrphan(ctx, c, a, f)
		if err != nil {
			failed = true
			fmt.Fprintf(o.ErrOut, "error: delete %s: %v\n", name, err)
			continue
		}
		fmt.Fprintf(o.Out, "%s %s\n", name, outcome)
	}
	if failed {
		return command.ErrFailed
	}
	return nil
}

// skipped is what is printed of orphans that are not deleted.
var skipped = map[orphans.State]string{
	orphans.Foreign:     "skipped: its name is not one that Berth gives to a namespace",
	orphans.Terminating: "is already being deleted",
	orphans.Retained:    "retained (--include-retained deletes it)",
}

func deleteOrphan(ctx context.Context, c client.Client, a *orphans.Orphan, f *orphansFlags) (outcome string, err error) {
	if !a.Deletable(f.retained) {
		return skipped[a.State], nil
	}
	created, err := orphans.Delete(ctx, c, command.Writer(c, f.dryRun, fieldOwner), a)
	switch {
	case created:
		return "skipped: Environment " + a.Environment + " exists again", nil
	case apierrors.IsNotFound(err):
		return "was already deleted", nil
	}
	return "deleted" + command.DryRunText(f.dryRun), err
}
