// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
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

	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/kube/kinds"
)

// Restorer restores a backup. What already exists as in the backup is left alone, so that an interrupted restore can be repeated.
type Restorer struct {
	// Client writes, or only pretends to in a dry run.
	Client client.Client
	DryRun bool
	// Actor is the user who restores.
	Actor string
	// Overwrite changes objects that differ from the backup. CreateNamespaces creates namespaces that do not exist.
	Overwrite, CreateNamespaces bool
	// Done is called for each object that is now as in the backup, Failed for each that is not, Warn for what may surprise.
	Done   func(object, outcome string)
	Failed func(error)
	Warn   Warner

	// refused are the Secrets that differ from the backup.
	refused map[client.ObjectKey]bool
	// owned are the Secrets that an Environment owned.
	owned map[client.ObjectKey][]string
	// absent are the namespaces that do not exist, or that a dry run would have created.
	absent map[string]bool
	failed bool
}

// Restore restores objects, and reports whether all of them are restored. Namespaces and Secrets come first.
func (r *Restorer) Restore(ctx context.Context, objects []*unstructured.Unstructured) bool {
	r.refused, r.owned, r.absent = map[client.ObjectKey]bool{}, map[client.ObjectKey][]string{}, map[string]bool{}
	for _, namespace := range namespacesOf(objects) {
		r.namespace(ctx, namespace)
	}
	inBackup := map[client.ObjectKey]bool{}
	for _, u := range objects {
		if u.GetKind() == secretKind.Kind {
			inBackup[client.ObjectKeyFromObject(u)] = true
			r.secret(ctx, u)
			continue
		}
		if r.environment(ctx, u) {
			r.warnOfMissing(ctx, u, inBackup)
		}
	}
	return !r.failed
}

// Prepare returns the objects of a backup as they are to be created, Secrets first, all in one namespace if that is not "". Two objects
// that would have the same name then are an error.
func Prepare(objects []*unstructured.Unstructured, namespace string) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	from := map[string]string{}
	for _, object := range objects {
		u := Plain(object)
		if namespace != "" {
			u.SetNamespace(namespace)
		}
		name := KeyOf(u)
		if other, twice := from[name]; twice {
			return nil, fmt.Errorf("the backup has %s twice, from namespaces %s and %s", name, other, object.GetNamespace())
		}
		from[name] = object.GetNamespace()
		out = append(out, u)
	}
	slices.SortStableFunc(out, func(a, b *unstructured.Unstructured) int {
		return cmp.Compare(b.GetKind(), a.GetKind()) // Secret, Environment
	})
	return out, nil
}

func namespacesOf(objects []*unstructured.Unstructured) (names []string) {
	for _, u := range objects {
		names = append(names, u.GetNamespace())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (r *Restorer) fail(format string, args ...any) bool {
	r.failed = true
	r.Failed(fmt.Errorf(format, args...))
	return false
}

func (r *Restorer) done(u *unstructured.Unstructured, outcome string) bool {
	r.Done(KeyOf(u), outcome)
	return true
}

// namespace creates a namespace that does not exist, if requested. If namespaces may not be read, the API server rejects what follows.
func (r *Restorer) namespace(ctx context.Context, name string) {
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
	if !apierrors.IsNotFound(err) {
		return
	}
	if !r.CreateNamespaces {
		r.absent[name] = true
		r.fail("namespace %s does not exist: create it, or use --create-namespaces", name)
		return
	}
	r.absent[name] = r.DryRun
	if err := r.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		r.absent[name] = true
		r.fail("create Namespace %s: %w", name, err)
		return
	}
	r.Done("Namespace "+name, "created")
}

func (r *Restorer) secret(ctx context.Context, u *unstructured.Unstructured) {
	key := client.ObjectKeyFromObject(u)
	annotations := u.GetAnnotations()
	owner := annotations[ownedByAnnotation]
	delete(annotations, ownedByAnnotation)
	u.SetAnnotations(annotations)
	if len(annotations) == 0 {
		unstructured.RemoveNestedField(u.Object, "metadata", "annotations")
	}
	if !r.apply(ctx, u, "data", "type") {
		r.refused[key] = true
		return
	}
	if owner != "" {
		of := client.ObjectKey{Namespace: key.Namespace, Name: owner}
		r.owned[of] = append(r.owned[of], key.Name)
	}
}

// environment restores an Environment, and reports whether it is as in the backup. It does not restore one that would start with the
// password of another owner.
func (r *Restorer) environment(ctx context.Context, u *unstructured.Unstructured) bool {
	names, err := secretsNamedBy(u)
	if err != nil {
		return r.fail("%w", err)
	}
	for _, name := range names {
		if r.refused[client.ObjectKey{Namespace: u.GetNamespace(), Name: name}] {
			return r.fail("%s is not restored: its Secret %s is not as in the backup", KeyOf(u), name)
		}
	}
	render.Sign(u, r.Actor)
	if !r.apply(ctx, u, "spec") {
		return false
	}
	r.adopt(ctx, u)
	return true
}

// apply makes an object exist with the fields of the backup, and reports whether it does, or would without the dry run.
func (r *Restorer) apply(ctx context.Context, u *unstructured.Unstructured, fields ...string) bool {
	if r.absent[u.GetNamespace()] {
		if r.CreateNamespaces && r.DryRun {
			return r.done(u, "created, not validated because its namespace does not exist yet")
		}
		return r.fail("%s is not restored: namespace %s does not exist", KeyOf(u), u.GetNamespace())
	}
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(u.GroupVersionKind())
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(u), have)
	switch {
	case apierrors.IsNotFound(err) && !kinds.NotServed(err):
		if err := r.Client.Create(ctx, u); err != nil {
			return r.fail("create %s: %w", KeyOf(u), err)
		}
		return r.done(u, "created")
	case err != nil:
		return r.fail("%s: %w", KeyOf(u), err)
	case have.GetDeletionTimestamp() != nil:
		return r.fail("%s is being deleted: restore it after that", KeyOf(u))
	case equal(have, u, fields):
		have.DeepCopyInto(u)
		return r.done(u, "unchanged")
	case !r.Overwrite:
		return r.fail("%s already exists and differs from the backup: use --overwrite to replace it", KeyOf(u))
	}
	return r.overwrite(ctx, u, have, fields)
}

// equal compares fields of two objects. A field that is empty equals one that is absent.
func equal(a, b *unstructured.Unstructured, fields []string) bool {
	return !slices.ContainsFunc(fields, func(f string) bool { return !equality.Semantic.DeepEqual(a.Object[f], b.Object[f]) })
}

// overwrite gives an existing object the fields of the backup. Labels and annotations of others stay.
func (r *Restorer) overwrite(ctx context.Context, u, have *unstructured.Unstructured, fields []string) bool {
	after := have.DeepCopy()
	for _, f := range fields {
		if value, ok := u.Object[f]; ok {
			after.Object[f] = value
		} else {
			delete(after.Object, f)
		}
	}
	after.SetLabels(merged(have.GetLabels(), u.GetLabels()))
	after.SetAnnotations(merged(have.GetAnnotations(), u.GetAnnotations()))
	if err := r.Client.Update(ctx, after); err != nil {
		return r.fail("overwrite %s: %w", KeyOf(u), err)
	}
	after.DeepCopyInto(u)
	return r.done(u, "overwritten")
}

// merged has the keys of both maps; the second one wins.
func merged(below, above map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, below)
	maps.Copy(out, above)
	if len(out) == 0 {
		return nil
	}
	return out
}

// adopt makes a restored Environment the owner of the Secrets that were created for it: they are deleted with it, and the gRPC service
// treats them as its own. The owner in the backup is another object, even if it has the same name.
func (r *Restorer) adopt(ctx context.Context, env *unstructured.Unstructured) {
	if r.DryRun {
		return
	}
	for _, name := range r.owned[client.ObjectKeyFromObject(env)] {
		s := &metav1.PartialObjectMetadata{}
		s.SetGroupVersionKind(secretKind)
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: env.GetNamespace(), Name: name}, s)
		if err == nil && adoptable(s, env) {
			before := s.DeepCopy()
			// A deleted owner of the same name would have the Secret deleted.
			s.OwnerReferences = append(slices.DeleteFunc(s.OwnerReferences, isController), metav1.OwnerReference{
				APIVersion: env.GetAPIVersion(), Kind: env.GetKind(), Name: env.GetName(), UID: env.GetUID(), Controller: new(true),
			})
			err = r.Client.Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		}
		if err != nil {
			r.Warn("Secret %s/%s will not be deleted with %s: %v", env.GetNamespace(), name, KeyOf(env), err)
		}
	}
}

// adoptable reports whether a Secret has no owner, or one of the same name that was deleted.
func adoptable(s *metav1.PartialObjectMetadata, env *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOf(s)
	return owner == nil || owner.Kind == env.GetKind() && owner.Name == env.GetName() && owner.UID != env.GetUID()
}

func isController(owner metav1.OwnerReference) bool {
	return owner.Controller != nil && *owner.Controller
}

// warnOfMissing names the Secrets of an Environment that are neither in the backup nor in the cluster.
func (r *Restorer) warnOfMissing(ctx context.Context, u *unstructured.Unstructured, inBackup map[client.ObjectKey]bool) {
	names, err := secretsNamedBy(u)
	if err != nil {
		return // reported before
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return inBackup[client.ObjectKey{Namespace: u.GetNamespace(), Name: name}]
	})
	for _, name := range MissingSecrets(ctx, r.Client, u.GetNamespace(), names, r.Warn) {
		r.Warn("Secret %s of %s is neither in the backup nor in the cluster: the environment does not run without it", name, KeyOf(u))
	}
}
