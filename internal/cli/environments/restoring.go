// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/render"
)

// restoring is a restore under way.
type restoring struct {
	*command.Options
	*envRestore
	client client.Client
	// who restores, once it was requested.
	who   string
	asked bool
	// refused are the Secrets that are something else than in the backup.
	refused map[client.ObjectKey]bool
	// owned are the Secrets that go with an environment.
	owned map[client.ObjectKey][]string
	// absent are the namespaces that a dry run would have made.
	absent map[string]bool
	failed bool
}

func (r *restoring) fail(format string, args ...any) {
	r.failed = true
	fmt.Fprintf(r.ErrOut, "error: "+format+"\n", args...)
}

func (r *restoring) did(u *unstructured.Unstructured, what string) {
	fmt.Fprintf(r.Out, "%s %s%s\n", keyOf(u), what, command.DryRunText(r.dryRun))
}

// namespaceFor makes a namespace that is not there, if that was requested. Who may not read namespaces is told by the API
// server when one is missing.
func (r *restoring) namespaceFor(ctx context.Context, name string) {
	err := r.client.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
	if !apierrors.IsNotFound(err) {
		return
	}
	if !r.createNamespaces {
		r.absent[name] = true
		r.fail("there is no namespace %s: make it, or have it made with --create-namespaces", name)
		return
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if r.dryRun != command.DryRunNone {
		r.absent[name] = true
	}
	if r.dryRun != command.DryRunClient {
		if err := r.client.Create(ctx, ns, creates(r.dryRun)...); err != nil {
			r.absent[name] = true
			r.fail("create Namespace %s: %v", name, err)
			return
		}
	}
	fmt.Fprintf(r.Out, "Namespace %s created%s\n", name, command.DryRunText(r.dryRun))
}

// secret restores a Secret.
func (r *restoring) secret(ctx context.Context, u *unstructured.Unstructured) {
	key := client.ObjectKeyFromObject(u)
	annotations := u.GetAnnotations()
	owner := annotations[ownedByAnnotation]
	delete(annotations, ownedByAnnotation)
	u.SetAnnotations(annotations)
	if len(annotations) == 0 {
		unstructured.RemoveNestedField(u.Object, "metadata", "annotations")
	}
	if !r.bring(ctx, u, "data", "type") {
		r.refused[key] = true
		return
	}
	if owner != "" {
		of := client.ObjectKey{Namespace: key.Namespace, Name: owner}
		r.owned[of] = append(r.owned[of], key.Name)
	}
}

// environment restores an environment, and says whether it is, or would be, as in the backup. One that would begin with
// another owner's password is not.
func (r *restoring) environment(ctx context.Context, u *unstructured.Unstructured) bool {
	names, err := secretsNamedBy(u)
	if err != nil {
		r.fail("%v", err)
		return false
	}
	for _, name := range names {
		if r.refused[client.ObjectKey{Namespace: u.GetNamespace(), Name: name}] {
			r.fail("%s is not restored: Secret %s, which it names, is not as in the backup", keyOf(u), name)
			return false
		}
	}
	r.sign(ctx, u)
	if !r.bring(ctx, u, "spec") {
		return false
	}
	r.adopt(ctx, u)
	return true
}

func (r *restoring) sign(ctx context.Context, u *unstructured.Unstructured) {
	if r.dryRun == command.DryRunClient {
		return
	}
	if !r.asked {
		r.who, r.asked = callerOf(ctx, r.client), true
	}
	render.Sign(u, r.who)
}

// bring makes an object be there as the backup has it, as far as the fields go, and says whether it is or would be.
func (r *restoring) bring(ctx context.Context, u *unstructured.Unstructured, fields ...string) bool {
	if r.absent[u.GetNamespace()] {
		if r.createNamespaces && r.dryRun != command.DryRunNone {
			// Nothing can be checked in a namespace that is not there.
			fmt.Fprintf(r.Out, "%s created%s, not checked: its namespace is not there yet\n", keyOf(u), command.DryRunText(r.dryRun))
			return true
		}
		r.fail("%s is not restored: there is no namespace %s", keyOf(u), u.GetNamespace())
		return false
	}
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(u.GroupVersionKind())
	err := r.client.Get(ctx, client.ObjectKeyFromObject(u), have)
	switch {
	case apierrors.IsNotFound(err) && !command.NoSuchKind(err):
		return r.create(ctx, u)
	case err != nil:
		r.fail("%s: %v", keyOf(u), unreadableEnvironment(err))
		return false
	case have.GetDeletionTimestamp() != nil:
		r.fail("%s is there and is being deleted: restore it when it is gone", keyOf(u))
		return false
	case same(have, u, fields):
		have.DeepCopyInto(u)
		r.did(u, "unchanged")
		return true
	case !r.overwrite:
		r.fail("%s exists already, and is not as in the backup (--overwrite makes it so)", keyOf(u))
		return false
	}
	return r.replace(ctx, u, have, fields)
}

// same says whether two objects have the same in some fields. A field that is empty is as one that is absent.
func same(a, b *unstructured.Unstructured, fields []string) bool {
	return !slices.ContainsFunc(fields, func(f string) bool { return !equality.Semantic.DeepEqual(a.Object[f], b.Object[f]) })
}

func (r *restoring) create(ctx context.Context, u *unstructured.Unstructured) bool {
	if r.dryRun != command.DryRunClient {
		if err := r.client.Create(ctx, u, creates(r.dryRun)...); err != nil {
			r.fail("create %s: %v", keyOf(u), err)
			return false
		}
	}
	r.did(u, "created")
	return true
}

// replace gives an object that is there what the backup has. Labels and annotations of others stay.
func (r *restoring) replace(ctx context.Context, u, have *unstructured.Unstructured, fields []string) bool {
	after := have.DeepCopy()
	for _, f := range fields {
		if value, ok := u.Object[f]; ok {
			after.Object[f] = value
		} else {
			delete(after.Object, f)
		}
	}
	after.SetLabels(over(have.GetLabels(), u.GetLabels()))
	after.SetAnnotations(over(have.GetAnnotations(), u.GetAnnotations()))
	if r.dryRun != command.DryRunClient {
		options := []client.UpdateOption{client.FieldOwner(envFieldOwner)}
		if r.dryRun == command.DryRunServer {
			options = append(options, client.DryRunAll)
		}
		if err := r.client.Update(ctx, after, options...); err != nil {
			r.fail("overwrite %s: %v", keyOf(u), err)
			return false
		}
	}
	after.DeepCopyInto(u)
	r.did(u, "overwritten")
	return true
}

// over is what both maps have, the second one's where both have the same key.
func over(below, above map[string]string) map[string]string {
	if len(above) == 0 {
		return below
	}
	out := maps.Clone(above)
	for key, value := range below {
		if _, there := out[key]; !there {
			out[key] = value
		}
	}
	return out
}

// adopt has the Secrets that were made for an environment be owned by the one that there is now: they are removed with it,
// and the gRPC service takes them for its own. The owner in the backup is another object, even of the same name.
func (r *restoring) adopt(ctx context.Context, env *unstructured.Unstructured) {
	if r.dryRun != command.DryRunNone {
		return
	}
	for _, name := range r.owned[client.ObjectKeyFromObject(env)] {
		s := &metav1.PartialObjectMetadata{}
		s.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(secretKind))
		err := r.client.Get(ctx, client.ObjectKey{Namespace: env.GetNamespace(), Name: name}, s)
		if err == nil && adoptable(s, env) {
			before := s.DeepCopy()
			// That of one of the same name which is gone would have it deleted.
			s.OwnerReferences = append(slices.DeleteFunc(s.OwnerReferences, isController), metav1.OwnerReference{
				APIVersion: env.GetAPIVersion(), Kind: env.GetKind(), Name: env.GetName(), UID: env.GetUID(), Controller: new(true),
			})
			err = r.client.Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(envFieldOwner))
		}
		if err != nil {
			r.Warn("Secret %s/%s stays when %s is deleted: %v", env.GetNamespace(), name, environmentName(env.GetName()), err)
		}
	}
}

// adoptable says whether a Secret belongs to no one, or to an environment of the same name that is gone.
func adoptable(s *metav1.PartialObjectMetadata, env *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOf(s)
	return owner == nil || owner.Kind == env.GetKind() && owner.Name == env.GetName() && owner.UID != env.GetUID()
}

func isController(owner metav1.OwnerReference) bool {
	return owner.Controller != nil && *owner.Controller
}

// sayMissing names the Secrets that an environment names, and that are neither in the backup nor in the cluster.
func (r *restoring) sayMissing(ctx context.Context, u *unstructured.Unstructured, inBackup map[client.ObjectKey]bool) {
	names, err := secretsNamedBy(u)
	if err != nil {
		return // it was told
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return inBackup[client.ObjectKey{Namespace: u.GetNamespace(), Name: name}]
	})
	for _, name := range missingSecrets(r.Options, ctx, r.client, u.GetNamespace(), names) {
		r.Warn("%s names Secret %s, which is neither in the backup nor in namespace %s: without it the environment does not run",
			environmentName(u.GetName()), name, u.GetNamespace())
	}
}
