// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/environments/backup"
	"berth.dev/berth/internal/environments/change"
)

const aboutBackup = `Prints environments as YAML that "kubectl berth env restore" reads: the named ones, or all of the namespace, or all with -A. A backup
has the spec of each environment, its labels and its annotations. It has no status, no allocated ports, no history, and no data of volumes. It
does not have a database password that Berth generated because the spec names no Secret: a restored environment gets a new one.

--with-secrets adds the Secrets that the environments name. Anyone who can read the backup can then read them.`

const backupExamples = `  kubectl berth env backup shop > shop.yaml
  kubectl berth env backup -A --with-secrets > all.yaml`

func newBackup(o *command.Options) *cobra.Command {
	withSecrets := false
	cmd := &cobra.Command{
		Use:     "backup [NAME...]",
		Short:   "Print environments as YAML that can be restored",
		Long:    aboutBackup,
		Example: backupExamples,
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			return environmentKind.Complete(o)(cmd, nil, toComplete)
		},
		PreRunE: func(_ *cobra.Command, args []string) error {
			if o.AllNamespaces && len(args) > 0 {
				return errors.New("NAME requires one namespace: use -n, not -A")
			}
			return nil
		},
		RunE: o.WithCluster(func(ctx context.Context, c client.Client, namespace string, args []string) error {
			return runBackup(ctx, o, c, namespace, args, withSecrets)
		}),
	}
	cmd.Flags().BoolVar(&withSecrets, "with-secrets", false, "Add the Secrets that the environments name.")
	o.AllNamespacesFlag(cmd)
	return cmd
}

func runBackup(ctx context.Context, o *command.Options, c client.Client, namespace string, args []string, withSecrets bool) error {
	var names []string
	for _, arg := range args {
		env, err := environmentNamed(ctx, c, namespace, arg)
		if err != nil {
			return err
		}
		names = append(names, env.Name)
	}
	objects, err := backup.Read(ctx, c, namespace, names, withSecrets, o.Warn)
	if err != nil {
		return environmentKind.Explain(err)
	}
	if len(objects) == 0 {
		return fmt.Errorf("no environments found in %s", printers.InNamespace(namespace))
	}
	return backup.Write(o.Out, objects)
}

const aboutRestore = `Creates the environments of a backup, and their Secrets first. With -n all of them are created in that namespace, otherwise each in
the one that it had. The spec of a restored environment is that of the backup.

Objects that already exist as in the backup are unchanged, so an interrupted restore can be repeated. An object that differs from the backup is
an error and stays as it is unless --overwrite is given; an environment whose Secret differs is not created either. The command then ends with
exit code 1 and restores everything else. It warns of Secrets that are neither in the backup nor in the cluster: environments wait for them.`

const restoreExamples = `  # Show what would be restored. The API server validates all of it and stores nothing.
  kubectl berth env restore -f all.yaml --dry-run=server

  # Restore all environments in a cluster that has only Berth
  kubectl berth env restore -f all.yaml --create-namespaces

  # Copy an environment to another namespace
  kubectl berth env restore -f shop.yaml -n staging`

// restoreFlags are the flags of restore.
type restoreFlags struct {
	file, dryRun                string
	overwrite, createNamespaces bool
}

func newRestore(o *command.Options) *cobra.Command {
	f := &restoreFlags{}
	cmd := &cobra.Command{
		Use:               "restore -f FILE",
		Short:             "Create the environments of a backup",
		Long:              aboutRestore,
		Example:           restoreExamples,
		Args:              command.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: o.WithCluster(func(ctx context.Context, c client.Client, namespace string, _ []string) error {
			objects, err := backupOf(o, f.file, namespace)
			if err != nil {
				return err
			}
			// The namespace of the kubeconfig is for objects without one; that of -n is for all.
			return runRestore(ctx, o, c, objects, o.GivenNamespace(), f)
		}),
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "filename", "f", "", "The backup: a file, directory or URL; - is standard input.")
	flags.BoolVar(&f.overwrite, "overwrite", false, "Replace objects that differ from the backup.")
	flags.BoolVar(&f.createNamespaces, "create-namespaces", false, "Create namespaces that do not exist.")
	_ = cmd.MarkFlagRequired("filename") // fails for a flag that does not exist
	command.DryRunFlag(cmd, &f.dryRun)
	return cmd
}

// backupOf reads the objects of a backup from a file.
func backupOf(o *command.Options, file, namespace string) ([]*unstructured.Unstructured, error) {
	objects, err := o.Objects(namespace, false, file)
	if err != nil {
		return nil, err
	}
	return objects, backup.Check(objects)
}

func runRestore(ctx context.Context, o *command.Options, c client.Client, objects []*unstructured.Unstructured, namespace string,
	f *restoreFlags,
) error {
	wanted, err := backup.Prepare(objects, namespace)
	if err != nil {
		return err
	}
	r := &backup.Restorer{
		Client: command.Writer(c, f.dryRun, fieldOwner), DryRun: f.dryRun != command.DryRunNone, Overwrite: f.overwrite,
		CreateNamespaces: f.createNamespaces,
		Done: func(object, outcome string) {
			fmt.Fprintf(o.Out, "%s %s%s\n", object, outcome, command.DryRunText(f.dryRun))
		},
		Failed: func(err error) { fmt.Fprintf(o.ErrOut, "error: %v\n", environmentKind.Explain(err)) },
		Warn:   o.Warn,
	}
	if f.dryRun != command.DryRunClient {
		r.Actor = change.CallerOf(ctx, c)
	}
	if !r.Restore(ctx, wanted) {
		return command.ErrFailed
	}
	return nil
}
