// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
)

const aboutEnvRestore = `Makes the environments of a backup, and before them its Secrets. With -n all of them go into that namespace, otherwise each into
the one that it comes from. The spec of a restored environment is that of the backup.

What is there already as the backup has it is left alone, so that a restore which was interrupted can be run again. What is there and is
something else is named, and not touched unless --overwrite is given; an environment whose Secret is something else is not made either. Ends
with exit code 1 then; everything else is restored. Secrets that are in neither the backup nor the cluster are named: environments wait for
them.`

const envRestoreExamples = `  # What would come of it? The API server checks all of it, and keeps nothing.
  kubectl berth env restore -f all.yaml --dry-run=server

  # All environments, in a cluster that has nothing but Berth
  kubectl berth env restore -f all.yaml --create-namespaces

  # A copy in another namespace
  kubectl berth env restore -f shop.yaml -n staging`

// envRestore are the flags of restore.
type envRestore struct {
	file, dryRun                string
	overwrite, createNamespaces bool
}

func newEnvRestore(o *command.Options) *cobra.Command {
	f := &envRestore{}
	cmd := &cobra.Command{
		Use:               "restore -f FILE",
		Short:             "Make the environments of a backup",
		Long:              aboutEnvRestore,
		Example:           envRestoreExamples,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.CheckDryRun(f.dryRun); err != nil {
				return err
			}
			namespace, c, err := o.Cluster()
			if err != nil {
				return err
			}
			// The kubeconfig's is for objects without a namespace; one that was given is for all.
			all := ""
			if o.Flags.Namespace != nil && *o.Flags.Namespace != "" {
				all = namespace
			}
			objects, err := backupOf(o, f.file, namespace)
			if err != nil {
				return err
			}
			return runRestore(o, cmd.Context(), c, objects, all, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "filename", "f", "", "The backup: a file, directory or URL; - is standard input.")
	flags.BoolVar(&f.overwrite, "overwrite", false, "Give what is there already what the backup has.")
	flags.BoolVar(&f.createNamespaces, "create-namespaces", false, "Make namespaces that are not there.")
	_ = cmd.MarkFlagRequired("filename") // fails for a flag that does not exist
	command.DryRunFlag(cmd, &f.dryRun)
	return cmd
}

// backupOf reads the objects of a backup. Anything but Environments and Secrets is none.
func backupOf(o *command.Options, file, namespace string) ([]*unstructured.Unstructured, error) {
	infos, err := o.ObjectsOf(file, namespace).Do().Infos()
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, info := range infos {
		u, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("%s: %T is no object", info.Source, info.Object)
		}
		if u.GetNamespace() == "" {
			u.SetNamespace(namespace)
		}
		objects = append(objects, u)
	}
	return objects, checkBackup(objects)
}

// checkBackup refuses what no backup has.
func checkBackup(objects []*unstructured.Unstructured) error {
	environments := 0
	for _, u := range objects {
		switch u.GroupVersionKind() {
		case v1alpha1.SchemeGroupVersion.WithKind(environmentKind):
			environments++
		case corev1.SchemeGroupVersion.WithKind(secretKind):
		default:
			return fmt.Errorf("%s %s/%s of %s is no part of a backup of environments", u.GetKind(), u.GetNamespace(), u.GetName(), u.GetAPIVersion())
		}
	}
	if environments == 0 {
		return errors.New("there is no Environment in the file")
	}
	return nil
}

// toRestore are the objects of a backup as they should be made, Secrets first. All namespaces may become one; two objects that
// would have the same name then are refused.
func toRestore(objects []*unstructured.Unstructured, all string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	from := map[string]string{}
	for _, object := range objects {
		u := plain(object)
		if all != "" {
			u.SetNamespace(all)
		}
		name := keyOf(u)
		if other, twice := from[name]; twice {
			return nil, fmt.Errorf("the backup has %s twice, of namespaces %s and %s", name, other, object.GetNamespace())
		}
		from[name] = object.GetNamespace()
		out = append(out, u)
	}
	slices.SortStableFunc(out, func(a, b *unstructured.Unstructured) int {
		return cmp.Compare(b.GetKind(), a.GetKind()) // Secret, Environment
	})
	return out, nil
}

// keyOf names an object in messages.
func keyOf(u *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", u.GetKind(), u.GetNamespace(), u.GetName())
}

func runRestore(o *command.Options, ctx context.Context, c client.Client, objects []*unstructured.Unstructured, all string, f *envRestore) error {
	wanted, err := toRestore(objects, all)
	if err != nil {
		return err
	}
	r := &restoring{Options: o, client: c, envRestore: f, refused: map[client.ObjectKey]bool{}, owned: map[client.ObjectKey][]string{}, absent: map[string]bool{}}
	for _, namespace := range namespacesOf(wanted) {
		r.namespaceFor(ctx, namespace)
	}
	inBackup := map[client.ObjectKey]bool{}
	for _, u := range wanted {
		if u.GetKind() == secretKind {
			inBackup[client.ObjectKeyFromObject(u)] = true
			r.secret(ctx, u)
			continue
		}
		if r.environment(ctx, u) {
			r.sayMissing(ctx, u, inBackup)
		}
	}
	if r.failed {
		return command.ErrFailed
	}
	return nil
}

// namespacesOf are the namespaces of objects.
func namespacesOf(objects []*unstructured.Unstructured) (names []string) {
	for _, u := range objects {
		names = append(names, u.GetNamespace())
	}
	slices.Sort(names)
	return slices.Compact(names)
}
