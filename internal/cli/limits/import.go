// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/limits/importer"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/kube/kinds"
)

const aboutImport = `Makes ResourceLimits of the ConfigMaps in which the MCP orchestrator keeps its resource limits, in the form that its
code writes as well as in the one of its plan. ConfigMaps are read from a namespace of the cluster, by the
orchestrator's labels, or from a file. They stay as they are.

Limits are created or changed by server-side apply; a second import changes nothing. A field that another user has
set to another value since is a conflict, which is told and left alone unless --force-conflicts is given.

What a ResourceLimit cannot hold is named on stderr, as is every ConfigMap that is skipped. Ends with exit code 1 if one
of them could not be imported; the others are.`

const importExamples = `  # What would come of the limits in namespace mcp-servers? Nothing is written.
  kubectl berth import resource-limits -n mcp-servers --dry-run=server

  # Import them into the namespace in which the workloads run
  kubectl berth import resource-limits -n mcp-servers --to-namespace shop

  # Make a file of a file, without a cluster
  kubectl berth import resource-limits -f configmaps.yaml --dry-run=client -o yaml > limits.yaml`

// importFlags are the flags of import.
type importFlags struct {
	file, from, to, dryRun string
	force                  bool
}

func NewImport(o *command.Options) *cobra.Command {
	root := &cobra.Command{
		Use:   "import",
		Short: "Import resource limits from another system",
		Long:  "Takes over what another system keeps: resource-limits, from the ConfigMaps of the MCP orchestrator.",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := &importFlags{}
	cmd := &cobra.Command{
		Use:     "resource-limits [-f FILE | -n NAMESPACE] [--to-namespace NAMESPACE]",
		Aliases: []string{"resourcelimits", "resource-limit", "rlim"},
		Short:   "Make ResourceLimits of the MCP orchestrator's ConfigMaps",
		Long:    aboutImport,
		Example: importExamples,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return importLimits(o, cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "filename", "f", "", "A file, directory or URL with ConfigMaps instead of the cluster's; - is standard input.")
	flags.StringVar(&f.from, "from-namespace", "", "The namespace of the ConfigMaps; default is that of -n or the kubeconfig.")
	flags.StringVar(&f.to, "to-namespace", "", "The namespace of the ResourceLimits; default is that of each ConfigMap.")
	flags.StringVar(&f.dryRun, "dry-run", command.DryRunNone, `One of none, client (only convert, ask no API server to write), server (have the API server check everything and keep nothing).`)
	flags.BoolVar(&f.force, "force-conflicts", false, "Take over fields that another user has set.")
	cmd.MarkFlagsMutuallyExclusive("filename", "from-namespace")
	_ = cmd.RegisterFlagCompletionFunc("from-namespace", o.CompleteNamespaces) // fails for a flag that does not exist
	_ = cmd.RegisterFlagCompletionFunc("to-namespace", o.CompleteNamespaces)
	_ = cmd.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions([]string{command.DryRunNone, command.DryRunClient, command.DryRunServer}, cobra.ShellCompDirectiveNoFileComp))
	o.OutputFlag(cmd, printers.JSON, printers.YAML)
	root.AddCommand(cmd)
	return root
}

func importLimits(o *command.Options, ctx context.Context, f *importFlags) error {
	switch f.dryRun {
	case command.DryRunNone, command.DryRunClient, command.DryRunServer:
	default:
		return fmt.Errorf("--dry-run is %q: it must be none, client or server", f.dryRun)
	}
	in := &importing{Options: o, dryRun: f.dryRun}
	var c client.Client
	var err error
	if f.file == "" || f.dryRun != command.DryRunClient { // a file is converted without a cluster
		if c, err = o.Client(); err != nil {
			return err
		}
		in.applier = importer.Applier{Client: c, DryRun: f.dryRun == command.DryRunServer, Force: f.force}
	}
	items, err := in.read(ctx, c, f)
	if err != nil {
		return err
	}
	for i := range items {
		in.take(ctx, &items[i])
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
	applier importer.Applier
	dryRun  string
	done    []*unstructured.Unstructured
	failed  bool
}

// read converts what there is in a file or a namespace.
func (in *importing) read(ctx context.Context, c client.Client, f *importFlags) ([]importer.Item, error) {
	namespace, err := in.Namespace()
	if err != nil {
		return nil, err
	}
	if f.from != "" {
		namespace = f.from
	}
	if f.file != "" {
		maps, failed, err := configMapsOf(in.Options, f.file, namespace)
		if err != nil {
			return nil, err
		}
		return append(importer.Convert(maps, f.to), failed...), nil
	}
	maps, err := importer.List(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	if len(maps) == 0 {
		fmt.Fprintf(in.ErrOut, "No resource limits of the MCP orchestrator found in namespace %s.\n", namespace)
	}
	return importer.Convert(maps, f.to), nil
}

// take imports one limit and says what came of it.
func (in *importing) take(ctx context.Context, item *importer.Item) {
	for _, note := range item.Notes {
		in.Warn("ConfigMap %s: %s", item.ConfigMap, note)
	}
	switch {
	case item.Skipped != "":
		fmt.Fprintf(in.ErrOut, "Skipped ConfigMap %s: %s\n", item.ConfigMap, item.Skipped)
		return
	case item.Err != nil:
		in.fail(item.Err)
		return
	}
	name := "resourcelimit.berth.dev/" + item.Limit.Name
	if in.dryRun == command.DryRunClient {
		object, err := importer.Object(item.Limit)
		if err != nil {
			in.fail(err)
			return
		}
		in.did(object, "%s converted (dry run)", name)
		return
	}
	object, change, err := in.applier.Apply(ctx, item.Limit)
	if err != nil {
		in.fail(ofConfigMap(item, err))
		return
	}
	suffix := ""
	if in.dryRun == command.DryRunServer {
		suffix = " (server dry run)"
	}
	in.did(object, "%s %s%s", name, change, suffix)
}

// ofConfigMap says of which ConfigMap an error of the API server is, and what to do.
func ofConfigMap(item *importer.Item, err error) error {
	err = fmt.Errorf("resourcelimit.berth.dev/%s, of ConfigMap %s: %w", item.Limit.Name, item.ConfigMap, err)
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("%w\nNothing of it was changed: take the fields over with --force-conflicts, or take them out of the ConfigMap", err)
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
	if in.Output == "table" || in.Output == "" {
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
		var errs []error
		for i, object := range in.done {
			if i > 0 {
				_, err := fmt.Fprintln(in.Out, "---")
				errs = append(errs, err)
			}
			_, err := in.Print(object.Object)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	items := make([]any, len(in.done))
	for i, object := range in.done {
		items[i] = object.Object
	}
	_, err := in.Print(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	return err
}
