// SPDX-License-Identifier: Apache-2.0

package applyset

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"berth.dev/berth/apis/v1alpha1"
)

// ErrNamespaceEnds means that no object can be created any more, because its namespace is being deleted.
var ErrNamespaceEnds = errors.New("the namespace is being deleted")

// RefusedError means that another try with the same object does not help.
type RefusedError struct {
	// Reason is the reason of a condition: v1alpha1.ReasonRefused or v1alpha1.ReasonNameTaken.
	Reason string
	Err    error
}

// Refuse returns a *RefusedError.
func Refuse(reason string, err error) *RefusedError { return &RefusedError{reason, err} }

// notChecked is what the API server adds to the errors of an object that it did not validate to the end. It names no field.
var notChecked = regexp.MustCompile(`, <nil>: Invalid value: null: some validation rules were not checked[^,\]]*`)

// Error returns the message, which users read in conditions and events.
func (e *RefusedError) Error() string { return notChecked.ReplaceAllString(e.Err.Error(), "") }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// Set applies and prunes the objects of one parent.
type Set struct {
	// Client reads from the cache and writes; Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// FieldOwner applies the objects.
	FieldOwner client.FieldOwner
	// Owns reports whether an object belongs to the parent. An object that does not is never taken over.
	Owns func(metav1.Object) bool
	// Exclusive means that the namespace has nothing of others, so that the owner need not be checked.
	Exclusive bool
	// Atomic validates every object before it applies the first, and stops at the first that is refused. Otherwise a refused
	// object leaves the others as they are.
	Atomic bool
	// Trusted leaves out the dry run of that validation.
	Trusted bool
	// Explain turns an error about an object into another one, such as a *RefusedError. It may be nil.
	Explain func(o *unstructured.Unstructured, err error) error
	// DefaultsOwner keeps the value of a Desired.Unassigned field when FieldOwner gives it up.
	DefaultsOwner client.FieldOwner
}

// Result is what Reconcile did. It is valid with an error too.
type Result struct {
	// Applied are the objects that were applied, as the API server returned them. Created is the number of new ones.
	Applied []Child
	Created int
	Pruned  []Child
	// Children are the objects that exist afterwards.
	Children []Child
	// Refused has the *RefusedErrors of the objects that were refused; nil for none.
	Refused error
}

// ListKinds returns the objects of some kinds that belong to the parent. They are shared with the cache and must not be changed.
func (s *Set) ListKinds(ctx context.Context, kinds []client.Object, opts ...client.ListOption) (found []Child, err error) {
	for _, kind := range kinds {
		list, err := ListOf(kind, s.Client.Scheme())
		if err != nil {
			return nil, err
		}
		some, err := s.List(ctx, s.Client, list, opts...)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return found, nil
}

// List returns the items of a list that belong to the parent. They are shared with the cache and must not be changed.
func (s *Set) List(
	ctx context.Context, reader client.Reader, list client.ObjectList, opts ...client.ListOption,
) (found []Child, err error) {
	if err := reader.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("list %T: %w", list, err)
	}
	return found, eachItem(list, func(o client.Object) error {
		if !s.Owns(o) {
			return nil
		}
		gvk, err := apiutil.GVKForObject(o, s.Client.Scheme())
		found = append(found, Child{o, gvk})
		return err
	})
}

// Reconcile applies what a plan applies, in order, and then deletes what it prunes.
func (s *Set) Reconcile(ctx context.Context, plan *Plan) (result Result, err error) {
	if s.Atomic {
		for _, d := range plan.Apply {
			if err := s.validate(ctx, d); err != nil {
				return result, s.explain(d.Unstructured, err)
			}
		}
	}
	for _, d := range plan.Apply {
		err := s.explain(d.Unstructured, s.apply(ctx, d))
		switch refused, is := errors.AsType[*RefusedError](err); {
		case err == nil:
			result.add(d)
		case is && !s.Atomic:
			result.Refused = errors.Join(result.Refused, refused)
		default:
			return result, err
		}
	}
	result.Pruned, result.Children = plan.Prune, slices.Concat(plan.Keep, result.Applied)
	if result.Refused == nil {
		result.Pruned = slices.Concat(plan.Prune, plan.Replaced)
	} else {
		result.Children = append(result.Children, plan.Replaced...)
	}
	return result, DeleteAll(ctx, s.Client, result.Pruned)
}

func (r *Result) add(d *Desired) {
	r.Applied = append(r.Applied, Child{d.Unstructured, d.GroupVersionKind()})
	if !d.exists {
		r.Created++
	}
}

func (s *Set) explain(o *unstructured.Unstructured, err error) error {
	if s.Explain == nil {
		return err
	}
	return s.Explain(o, err)
}

// validate makes sure that an object can be applied. The answer to the dry run of an object that does not exist yet has no
// resource version.
func (s *Set) validate(ctx context.Context, d *Desired) error {
	if s.Trusted {
		return s.checkOwner(ctx, d.Unstructured)
	}
	answer := d.DeepCopy()
	err := s.patch(ctx, answer, client.DryRunAll)
	if !d.exists && (err != nil || answer.GetResourceVersion() != "") {
		if taken := s.checkOwner(ctx, d.Unstructured); taken != nil {
			return taken
		}
	}
	return err
}

func (s *Set) apply(ctx context.Context, d *Desired) error {
	if !s.Atomic {
		if err := s.checkOwner(ctx, d.Unstructured); err != nil {
			return err
		}
	}
	if d.exists && d.Unassigned != nil {
		if err := s.keepValue(ctx, d); err != nil {
			return err
		}
	}
	return s.patch(ctx, d.Unstructured)
}

// checkOwner refuses to take over an object that does not belong to the parent.
func (s *Set) checkOwner(ctx context.Context, o *unstructured.Unstructured) error {
	if s.Exclusive {
		return nil
	}
	existing := &metav1.PartialObjectMetadata{}
	existing.SetGroupVersionKind(o.GroupVersionKind())
	err := s.Live.Get(ctx, client.ObjectKeyFromObject(o), existing)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read %s %s: %w", o.GetKind(), client.ObjectKeyFromObject(o), err)
	case s.Owns(existing): // the cache does not have it yet
		return nil
	}
	owner := "no controller"
	if c := metav1.GetControllerOf(existing); c != nil {
		owner = c.Kind + " " + c.Name
	}
	return Refuse(v1alpha1.ReasonNameTaken, fmt.Errorf("%s %s already exists and belongs to %s", o.GetKind(), o.GetName(), owner))
}

// patch applies an object. The API server rejects unknown fields.
func (s *Set) patch(ctx context.Context, o *unstructured.Unstructured, opts ...client.PatchOption) error {
	name := o.GetKind() + " " + o.GetName()
	strict := client.FieldValidation(metav1.FieldValidationStrict)
	err := s.Client.Patch(ctx, o, apply, append(opts, s.FieldOwner, client.ForceOwnership, strict)...)
	return Refusal("apply", name, err)
}

// Refusal classifies the error of an action, such as "apply", on an object: a *RefusedError if the API server, or an admission policy or
// webhook, refuses the object, and ErrNamespaceEnds if its namespace is being deleted.
func Refusal(action, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return ErrNamespaceEnds
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err), untyped(err):
		return Refuse(v1alpha1.ReasonRefused, fmt.Errorf("the API server refuses %s: %w", name, err))
	}
	return fmt.Errorf("%s %s: %w", action, name, err)
}

// untyped reports whether the API server could not read an object as one of its kind, which it reports as an internal error.
func untyped(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed to create typed patch object")
}

// keepValue makes DefaultsOwner the owner of an unassigned field: a field without an owner would fall back to its default.
func (s *Set) keepValue(ctx context.Context, d *Desired) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(d.GroupVersionKind())
	if err := s.Live.Get(ctx, client.ObjectKeyFromObject(d), live); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("read %s %s: %w", d.GetKind(), d.GetName(), err))
	}
	value, found, err := unstructured.NestedFieldNoCopy(live.Object, d.Unassigned...)
	if err != nil || !found {
		return err
	}
	return Field(ctx, s.Client, d.GroupVersionKind(), live, d.Unassigned, value, s.DefaultsOwner)
}

// DeleteAll deletes objects in their order. It goes on after an error.
func DeleteAll(ctx context.Context, c client.Client, children []Child) error {
	var failed []error
	for i := range children {
		failed = append(failed, Delete(ctx, c, children[i].Object))
	}
	return errors.Join(failed...)
}

// Delete deletes an object, and no other of its name. It is no error if it is gone.
func Delete(ctx context.Context, c client.Client, o client.Object) error {
	if o.GetDeletionTimestamp() != nil {
		return nil
	}
	uid := o.GetUID()
	err := c.Delete(ctx, o, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s: %w", o.GetName(), err)
	}
	return nil
}
