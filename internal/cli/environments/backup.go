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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
)

const aboutEnvBackup = `Prints environments as YAML that "kubectl berth env restore" takes: those that are named, or all of the namespace, or all with
-A. It has what was requested and not what came of it: no status, no ports that were allocated, no history, and no data of volumes. A
database password that was made up because no one gave one is not in it; another one is made up when it is restored.

--with-secrets adds the Secrets that they name. Whoever can read the backup can read these then.`

const envBackupExamples = `  kubectl berth env backup shop > shop.yaml
  kubectl berth env backup -A --with-secrets > all.yaml`

const (
	environmentKind = "Environment"
	secretKind      = "Secret"
	// ownedByAnnotation on a Secret of a backup is the name of the Environment that it was made for, and goes with.
	ownedByAnnotation = v1alpha1.AnnotationPrefix + "/owned-by"
)

// Annotations that say who wrote an object and how, and are about no other.
var writersAnnotations = []string{
	v1alpha1.ActorAnnotation, v1alpha1.UpdatedAtAnnotation, corev1.LastAppliedConfigAnnotation,
}

func newEnvBackup(o *command.Options) *cobra.Command {
	withSecrets := false
	cmd := &cobra.Command{
		Use:     "backup [NAME...]",
		Short:   "Print environments as YAML that can be restored",
		Long:    aboutEnvBackup,
		Example: envBackupExamples,
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			return completeEnvironments(o)(cmd, nil, toComplete)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.AllNamespaces && len(args) > 0 {
				return errors.New("environments are named in one namespace: use -n, not -A")
			}
			namespace, c, err := o.Cluster()
			if err != nil {
				return err
			}
			return runBackup(o, cmd.Context(), c, namespace, args, withSecrets)
		},
	}
	cmd.Flags().BoolVar(&withSecrets, "with-secrets", false, "Add the Secrets that the environments name.")
	o.AllNamespacesFlag(cmd)
	return cmd
}

// runBackup prints environments. Everything is read before anything is printed: half a backup looks like a whole one.
func runBackup(o *command.Options, ctx context.Context, c client.Client, namespace string, names []string, withSecrets bool) error {
	list, err := environmentsToKeep(o, ctx, c, namespace, names)
	if err != nil {
		return err
	}
	var secrets, environments []*unstructured.Unstructured
	seen := map[client.ObjectKey]bool{}
	for _, u := range list {
		named, err := secretsNamedBy(u)
		if err != nil {
			return err
		}
		for _, name := range named {
			key := client.ObjectKey{Namespace: u.GetNamespace(), Name: name}
			if seen[key] {
				continue
			}
			seen[key] = true
			if !withSecrets {
				o.Warn("Secret %s, which %s names, is not in the backup (--with-secrets)", key, environmentName(u.GetName()))
				continue
			}
			secret, err := readSecret(ctx, c, key)
			switch {
			case apierrors.IsNotFound(err):
				o.Warn("Secret %s, which %s names, is not there", key, environmentName(u.GetName()))
			case err != nil:
				return fmt.Errorf("read Secret %s: %w", key, err)
			default:
				secrets = append(secrets, secret)
			}
		}
		environments = append(environments, plain(u))
	}
	if len(environments) == 0 {
		return fmt.Errorf("no environments found in %s", printers.InNamespace(namespace))
	}
	return writeStream(o.Out, append(secrets, environments...))
}

// environmentsToKeep reads environments as they are, fields that this plugin does not know too. One that is being deleted is
// kept only if it is named.
func environmentsToKeep(o *command.Options, ctx context.Context, c client.Client, namespace string, names []string) (list []*unstructured.Unstructured, err error) {
	for _, name := range names {
		env, err := environmentNamed(ctx, c, namespace, name)
		if err != nil {
			return nil, err
		}
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(environmentKind))
		if err := c.Get(ctx, client.ObjectKeyFromObject(env), u); err != nil {
			return nil, unreadableEnvironment(err)
		}
		list = append(list, u)
	}
	if len(names) > 0 {
		return list, nil
	}
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(environmentKind + "List"))
	if err := c.List(ctx, all, client.InNamespace(namespace)); err != nil {
		return nil, unreadableEnvironment(err)
	}
	for i := range all.Items {
		u := &all.Items[i]
		if u.GetDeletionTimestamp() != nil {
			o.Warn("environment %s/%s is being deleted, and is not in the backup", u.GetNamespace(), u.GetName())
			continue
		}
		list = append(list, u)
	}
	slices.SortFunc(list, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return list, nil
}

// secretsNamedBy are the names of the Secrets that an environment names.
func secretsNamedBy(u *unstructured.Unstructured) ([]string, error) {
	env := &v1alpha1.Environment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, env); err != nil {
		return nil, fmt.Errorf("Environment %s/%s: %w", u.GetNamespace(), u.GetName(), err) //nolint:staticcheck // a kind
	}
	return secretsOf(&env.Spec), nil
}

// readSecret reads a Secret as it goes into a backup. It has no owner there, but says that it had one.
func readSecret(ctx context.Context, c client.Client, key client.ObjectKey) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(secretKind))
	if err := c.Get(ctx, key, u); err != nil {
		return nil, err
	}
	out := plain(u)
	if owner := metav1.GetControllerOf(u); owner != nil && owner.Kind == environmentKind {
		annotations := out.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[ownedByAnnotation] = owner.Name
		out.SetAnnotations(annotations)
	}
	return out, nil
}

// plain is an object with what someone requested, and nothing of what the cluster made of it: it can be recreated.
func plain(u *unstructured.Unstructured) *unstructured.Unstructured {
	from := u.DeepCopy()
	out := &unstructured.Unstructured{Object: map[string]any{}}
	for field, value := range from.Object {
		if field != "metadata" && field != "status" {
			out.Object[field] = value
		}
	}
	out.SetName(from.GetName())
	out.SetNamespace(from.GetNamespace())
	if labels := from.GetLabels(); len(labels) > 0 {
		out.SetLabels(labels)
	}
	annotations := from.GetAnnotations()
	for _, name := range writersAnnotations {
		delete(annotations, name)
	}
	if len(annotations) > 0 {
		out.SetAnnotations(annotations)
	}
	return out
}

// plainObject is the same for an environment as it is in Go.
func plainObject(env *v1alpha1.Environment) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(env)
	if err != nil {
		return nil, fmt.Errorf("Environment %s/%s: %w", env.Namespace, env.Name, err) //nolint:staticcheck // a kind
	}
	return plain(&unstructured.Unstructured{Object: content}), nil
}
