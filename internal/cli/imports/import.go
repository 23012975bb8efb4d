// SPDX-License-Identifier: Apache-2.0

// Package imports has the commands that create objects of Berth from those of other systems.
package imports

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/kube/kinds"
)

// flags are those of a command that imports.
type flags struct {
	file, from, to, dryRun string
	force                  bool
}

// system is what a command imports from.
type system struct {
	// what names the objects in the plural, kinds their kinds.
	what, kinds string
	// has reports whether an object of a file is one of them. The others of a file are ignored.
	has   func(*unstructured.Unstructured) bool
	list  func(ctx context.Context, c client.Client, namespace string) ([]*unstructured.Unstructured, error)
	parse func(*unstructured.Unstructured) result
}

// New returns the command import.
func New(o *command.Options) *cobra.Command {
	root := &cobra.Command{
		Use:   "import",
		Short: "Import resource limits and deployment records from other systems",
		Long: "Imports resource limits from the ConfigMaps of the MCP orchestrator, and deployment records from the ClassRuntimes and " +
			"DeploymentRecords of OaaS.",
		Example: "  kubectl berth import resource-limits -n mcp-servers --dry-run=server\n" +
			"  kubectl berth import records -n oaas --dry-run=server",
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(newLimits(o), newRecords(o))
	return root
}

// subcommand adds to a command what all that import have.
func subcommand(o *command.Options, cmd *cobra.Command, from *system) *cobra.Command {
	f := &flags{}
	cmd.Args = command.NoArguments
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o, f, from) }
	set := cmd.Flags()
	set.StringVarP(&f.file, "filename", "f", "", "Read objects from a file, directory or URL instead of the cluster; - is standard input.")
	set.StringVar(&f.from, "from-namespace", "", "The namespace of the objects that are read. Default: that of -n or the kubeconfig.")
	set.StringVar(&f.to, "to-namespace", "", "The namespace of the objects that are created. Default: that of each object that is read.")
	command.DryRunFlag(cmd, &f.dryRun)
	set.BoolVar(&f.force, "force-conflicts", false, "Overwrite fields of other field managers.")
	cmd.MarkFlagsMutuallyExclusive("filename", "from-namespace")
	_ = cmd.RegisterFlagCompletionFunc("from-namespace", o.CompleteNamespaces) // fails for a flag that does not exist
	_ = cmd.RegisterFlagCompletionFunc("to-namespace", o.CompleteNamespaces)
	o.OutputFlag(cmd, printers.JSON, printers.YAML)
	return cmd
}

func run(ctx context.Context, o *command.Options, f *flags, from *system) error {
	in := &importing{Options: o, flags: f, system: from}
	if f.file == "" || f.dryRun != command.DryRunClient { // a file is converted without a cluster
		c, err := o.Client()
		if err != nil {
			return err
		}
		in.client = command.Writer(c, f.dryRun, fieldOwner)
	}
	objects, err := in.read(ctx)
	if err != nil {
		return err
	}
	results := convert(objects, in.to, in.parse)
	for i := range results {
		in.take(ctx, &results[i])
	}
	if err := in.print(); err != nil {
		return err
	}
	if in.failed {
		return command.ErrFailed
	}
	return nil
}

// importing is an import under way.
type importing struct {
	*command.Options
	*flags
	*system
	client client.Client
	done   []*unstructured.Unstructured
	failed bool
}

// read returns the objects of a file or a namespace.
func (in *importing) read(ctx context.Context) ([]*unstructured.Unstructured, error) {
	namespace, err := in.Namespace()
	if err != nil {
		return nil, err
	}
	namespace = cmp.Or(in.from, namespace)
	if in.file != "" {
		return in.readFile(namespace)
	}
	objects, err := in.list(ctx, in.client, namespace)
	if err == nil && len(objects) == 0 {
		fmt.Fprintf(in.ErrOut, "No %s found in namespace %s.\n", in.what, namespace)
	}
	return objects, err
}

// readFile returns the objects of a file: one or several documents, YAML or JSON, lists too.
func (in *importing) readFile(namespace string) ([]*unstructured.Unstructured, error) {
	all, err := in.Objects(namespace, false, in.file)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, u := range all {
		if in.has(u) {
			objects = append(objects, u)
		}
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("the file has no %s", in.kinds)
	}
	return objects, nil
}

// take imports one object and prints the result.
func (in *importing) take(ctx context.Context, r *result) {
	for _, note := range r.Notes {
		in.Warn("%s: %s", r.from(), note)
	}
	switch {
	case r.Skipped != "":
		fmt.Fprintf(in.ErrOut, "Skipped %s: %s\n", r.from(), r.Skipped)
		return
	case r.Err != nil:
		in.fail(r.Err)
		return
	}
	name := resourceOf(r.Object)
	if in.dryRun == command.DryRunClient {
		in.did(r.Object, "%s converted (dry run)", name)
		return
	}
	change, err := apply(ctx, in.client, r.Object, in.force)
	if err != nil {
		in.fail(explained(r, err))
		return
	}
	in.did(r.Object, "%s %s%s", name, change, command.DryRunText(in.dryRun))
}

// resourceOf returns an object as kubectl names it.
func resourceOf(u *unstructured.Unstructured) string {
	return printers.Resource(u.GroupVersionKind(), u.GetName())
}

// explained adds to an error of the API server where the object comes from and what to do.
func explained(r *result, err error) error {
	err = fmt.Errorf("%s of %s: %w", resourceOf(r.Object), r.from(), err)
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("%w\nThe %s is not changed: overwrite the fields with --force-conflicts, or remove them from the %s",
			err, r.Object.GetKind(), r.Kind)
	case kinds.NotServed(err):
		return fmt.Errorf("%w: is Berth installed?", err)
	}
	return err
}

func (in *importing) fail(err error) {
	in.failed = true
	fmt.Fprintf(in.ErrOut, "error: %v\n", err)
}

func (in *importing) did(object *unstructured.Unstructured, format string, args ...any) {
	in.done = append(in.done, object)
	if in.ForPeople() {
		_, err := fmt.Fprintf(in.Out, format+"\n", args...)
		in.failed = in.failed || err != nil
	}
}

// print writes the objects, where they and not the lines are wanted.
func (in *importing) print() error {
	for _, object := range in.done {
		object.SetManagedFields(nil)
	}
	if in.Output == printers.YAML {
		for i, object := range in.done {
			if i > 0 {
				fmt.Fprintln(in.Out, "---")
			}
			if _, err := in.Print(object.Object); err != nil {
				return err
			}
		}
		return nil
	}
	items := make([]any, len(in.done))
	for i, object := range in.done {
		items[i] = object.Object
	}
	_, err := in.Print(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	return err
}
