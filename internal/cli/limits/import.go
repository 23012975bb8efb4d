// SPDX-License-Identifier: Apache-2.0

// Package limits has the command that imports ResourceLimits.
package limits

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/kube/kinds"
)

const aboutImport = `Creates ResourceLimits from the ConfigMaps in which the MCP orchestrator stores its resource limits, in the format of its code as well as in
that of its design. The ConfigMaps are read from a namespace of the cluster, by the labels of the orchestrator, or from a file. They are not
changed.

Limits are created or changed by server-side apply, and a second import changes nothing. A field that another field manager has set to another
value is a conflict: it is reported and not changed, unless --force-conflicts is given.

The command reports on stderr what a ResourceLimit cannot represent, and each ConfigMap that it skips. It exits with code 1 if a ConfigMap
could not be imported; it imports all others.`

const importExamples = `  # Show what would be imported from namespace mcp-servers. Nothing is written.
  kubectl berth import resource-limits -n mcp-servers --dry-run=server

  # Import the limits into the namespace of the workloads
  kubectl berth import resource-limits -n mcp-servers --to-namespace shop

  # Convert a file without a cluster
  kubectl berth import resource-limits -f configmaps.yaml --dry-run=client -o yaml > limits.yaml`

// importFlags are the flags of import.
type importFlags struct {
	file, from, to, dryRun string
	force                  bool
}

// NewImport returns the command import.
func NewImport(o *command.Options) *cobra.Command {
	root := &cobra.Command{
		Use:     "import",
		Short:   "Import resource limits from another system",
		Long:    "Imports resource limits from the ConfigMaps of the MCP orchestrator.",
		Example: "  kubectl berth import resource-limits -n mcp-servers --dry-run=server",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := &importFlags{}
	cmd := &cobra.Command{
		Use:     "resource-limits [-f FILE | -n NAMESPACE] [--to-namespace NAMESPACE]",
		Aliases: []string{"resourcelimits", "resource-limit", "rlim"},
		Short:   "Create ResourceLimits from the ConfigMaps of the MCP orchestrator",
		Long:    aboutImport,
		Example: importExamples,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return importLimits(cmd.Context(), o, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "filename", "f", "",
		"Read ConfigMaps from a file, directory or URL instead of the cluster; - is standard input.")
	flags.StringVar(&f.from, "from-namespace", "", "The namespace of the ConfigMaps. Default: that of -n or the kubeconfig.")
	flags.StringVar(&f.to, "to-namespace", "", "The namespace of the ResourceLimits. Default: that of each ConfigMap.")
	command.DryRunFlag(cmd, &f.dryRun)
	flags.BoolVar(&f.force, "force-conflicts", false, "Overwrite fields of other field managers.")
	cmd.MarkFlagsMutuallyExclusive("filename", "from-namespace")
	_ = cmd.RegisterFlagCompletionFunc("from-namespace", o.CompleteNamespaces) // fails for a flag that does not exist
	_ = cmd.RegisterFlagCompletionFunc("to-namespace", o.CompleteNamespaces)
	o.OutputFlag(cmd, printers.JSON, printers.YAML)
	root.AddCommand(cmd)
	return root
}

func importLimits(ctx context.Context, o *command.Options, f *importFlags) error {
	in := &importing{Options: o, importFlags: f}
	if f.file == "" || f.dryRun != command.DryRunClient { // a file is converted without a cluster
		c, err := o.Client()
		if err != nil {
			return err
		}
		in.client = command.Writer(c, f.dryRun, fieldOwner)
	}
	items, err := in.read(ctx)
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
	*importFlags
	client client.Client
	done   []*unstructured.Unstructured
	failed bool
}

// read converts the ConfigMaps of a file or a namespace.
func (in *importing) read(ctx context.Context) ([]item, error) {
	namespace, err := in.Namespace()
	if err != nil {
		return nil, err
	}
	namespace = cmp.Or(in.from, namespace)
	if in.file != "" {
		maps, failed, err := configMapsOf(in.Options, in.file, namespace)
		if err != nil {
			return nil, err
		}
		return append(convert(maps, in.to), failed...), nil
	}
	maps, err := listConfigMaps(ctx, in.client, namespace)
	if err != nil {
		return nil, err
	}
	if len(maps) == 0 {
		fmt.Fprintf(in.ErrOut, "No resource limits of the MCP orchestrator found in namespace %s.\n", namespace)
	}
	return convert(maps, in.to), nil
}

// take imports one limit and prints the result.
func (in *importing) take(ctx context.Context, item *item) {
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
		object, err := limitObject(item.Limit)
		if err != nil {
			in.fail(err)
			return
		}
		in.did(object, "%s converted (dry run)", name)
		return
	}
	object, change, err := apply(ctx, in.client, item.Limit, in.force)
	if err != nil {
		in.fail(ofConfigMap(item, err))
		return
	}
	in.did(object, "%s %s%s", name, change, command.DryRunText(in.dryRun))
}

// ofConfigMap adds to an error of the API server the name of the ConfigMap and what to do.
func ofConfigMap(item *item, err error) error {
	err = fmt.Errorf("resourcelimit.berth.dev/%s of ConfigMap %s: %w", item.Limit.Name, item.ConfigMap, err)
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("%w\nThe ResourceLimit is not changed: overwrite the fields with --force-conflicts, or remove them from the ConfigMap", err)
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

// configMapsOf reads the ConfigMaps of a file: one or several documents, YAML or JSON, lists too. Other objects are ignored.
// ConfigMaps that cannot be decoded are returned as failed.
func configMapsOf(o *command.Options, file, namespace string) (maps []*corev1.ConfigMap, failed []item, err error) {
	objects, err := o.Objects(namespace, false, file)
	if err != nil {
		return nil, nil, err
	}
	for _, u := range objects {
		if u.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("ConfigMap") {
			continue
		}
		cm := &corev1.ConfigMap{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, cm); err != nil {
			key := u.GetNamespace() + "/" + u.GetName()
			failed = append(failed, item{ConfigMap: key, Err: fmt.Errorf("ConfigMap %s: %w", key, err)})
			continue
		}
		maps = append(maps, cm)
	}
	if len(maps)+len(failed) == 0 {
		return nil, nil, errors.New("the file has no ConfigMap")
	}
	return maps, failed, nil
}
