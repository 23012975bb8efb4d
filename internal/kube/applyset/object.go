// SPDX-License-Identifier: Apache-2.0

package applyset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/hash"
)

// ErrNamespaceEnds says that nothing can be made any more, for its namespace is being deleted.
var ErrNamespaceEnds = errors.New("the namespace is being deleted")

// RefusedError says that the API server refuses an object for what it says.
type RefusedError struct {
	// Object is its kind and name.
	Object string
	Err    error
}

// Error returns the message.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("the API server refuses %s: %v", e.Object, e.Err)
}

// Unwrap returns the API server's error.
func (e *RefusedError) Unwrap() error { return e.Err }

// Object has the API server take over what is wanted of an object, in the name of owner, and refuse fields that it does not
// know. The error is a *RefusedError where another try is of no use.
func Object(ctx context.Context, c client.Client, o *unstructured.Unstructured, owner client.FieldOwner, how ...client.PatchOption) error {
	name := o.GetKind() + " " + o.GetName()
	err := c.Patch(ctx, o, client.Apply, append(how, owner, client.ForceOwnership, strictly{})...)
	switch {
	case err == nil:
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return ErrNamespaceEnds
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err), untyped(err):
		return &RefusedError{Object: name, Err: err}
	}
	return fmt.Errorf("apply %s: %w", name, err)
}

// untyped reports whether the API server could not read what was applied as an
// object of its kind. It reports it as an internal error.
func untyped(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed to create typed patch object")
}

// strictly has the API server refuse fields that it does not know, in place of dropping them.
type strictly struct{}

// ApplyToPatch implements client.PatchOption.
func (strictly) ApplyToPatch(o *client.PatchOptions) {
	if o.Raw == nil {
		o.Raw = &metav1.PatchOptions{}
	}
	o.Raw.FieldValidation = metav1.FieldValidationStrict
}

// Delete removes the object that was seen, and no other of its name. It is no error if it is gone.
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

// Mark notes on an object what was rendered of it, but for the field that others set (nil for none). What is not rendered any
// more is known by that: in the object itself it looks like what others have added.
func Mark(o *unstructured.Unstructured, floating []string) {
	content := o.Object
	if floating != nil {
		content = o.DeepCopy().Object
		unstructured.RemoveNestedField(content, floating...)
	}
	text, err := json.Marshal(content)
	if err != nil {
		return // it could not be applied either, and the API server reports it
	}
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.RenderedAnnotation] = hash.Of(text, hash.Label)
	o.SetAnnotations(annotations)
}
