// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/records/render"
)

// bring has the cluster have what was rendered, and nothing else of the record.
// Where one object is refused, the others stay as they were: see try and undo.
func (r *Reconciler) bring(ctx context.Context, rec *v1alpha1.DeploymentRecord, rendered *render.Rendered, by *v1alpha1.DeploymentTemplate) ([]child, []note, error) {
	there, err := r.children(ctx, rec)
	if err != nil {
		return nil, nil, err
	}
	missing := r.missing(rec, rendered, there)
	first := !wasDeployed(rec) && len(there) == 0
	if err := r.try(ctx, rec, missing, there, first && r.proven.trusts(by, rec)); err != nil {
		return nil, nil, err
	}
	if done, err := r.put(ctx, missing, rendered, there); err != nil {
		if first && refusal(err) != nil {
			r.proven.failed(rec)
			err = errors.Join(err, r.undo(ctx, missing[:done]))
		}
		return nil, nil, err
	}
	r.proven.worked(by, rec)
	kept, dropped, err := r.prune(ctx, rendered, there)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range missing { // the cache has yet to see it
		kept = slices.DeleteFunc(kept, func(c child) bool { return same(&c, o) })
		kept = append(kept, child{o, o.GroupVersionKind()})
	}
	return kept, happened(ctx, missing, there, dropped), nil
}

// happened says what was changed.
func happened(ctx context.Context, applied []*unstructured.Unstructured, there, dropped []child) (notes []note) {
	if len(applied) > 0 {
		made := 0
		for _, o := range applied {
			if of(there, o) == nil {
				made++
			}
		}
		notes = append(notes, note{v1alpha1.EventReasonApplied, fmt.Sprintf("applied %d objects, %d of them new", len(applied), made)})
		log.FromContext(ctx).Info("Applied what was rendered", "objects", len(applied), "new", made)
	}
	if len(dropped) > 0 {
		notes = append(notes, note{v1alpha1.EventReasonPruned, "deleted what is not requested any more: " + names(dropped)})
	}
	return notes
}

// put applies objects in their order, and says how many it could.
func (r *Reconciler) put(ctx context.Context, missing []*unstructured.Unstructured, rendered *render.Rendered, there []child) (done int, err error) {
	for _, want := range missing {
		if err := r.hold(ctx, want, rendered.Floating(want), of(there, want)); err != nil {
			return done, err
		}
		if err := r.apply(ctx, want); err != nil {
			return done, err
		}
		done++
	}
	return done, nil
}

// missing returns the objects that the cluster has not, or not as they were rendered.
func (r *Reconciler) missing(rec *v1alpha1.DeploymentRecord, rendered *render.Rendered, there []child) (list []*unstructured.Unstructured) {
	for _, want := range rendered.Objects {
		path := rendered.Floating(want)
		own(rec, want)
		applyset.Mark(want, path)
		have := of(there, want)
		if have != nil && path != nil {
			unstructured.RemoveNestedField(want.Object, path...)
		}
		if have == nil || !applyset.Covered(have.Object, want) {
			list = append(list, want)
		}
	}
	return list
}

// try makes sure that objects can be applied: that none of them is someone
// else's, and that the API server refuses none. For that it is requested to apply
// them without effect, unless nothing of the record is there yet and its template
// is known to be good: then what was made is deleted again if one is refused.
func (r *Reconciler) try(ctx context.Context, rec *v1alpha1.DeploymentRecord, missing []*unstructured.Unstructured, there []child, known bool) error {
	for _, want := range missing {
		var err error
		if known {
			err = r.free(ctx, rec, want)
		} else {
			err = r.tryOne(ctx, rec, want, of(there, want) == nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tryOne applies an object without effect. One that is new to the record must not be
// there: the answer then has a version, which one that would be made has not.
func (r *Reconciler) tryOne(ctx context.Context, rec *v1alpha1.DeploymentRecord, want *unstructured.Unstructured, fresh bool) error {
	answer := want.DeepCopy()
	err := r.apply(ctx, answer, client.DryRunAll)
	if fresh && (err != nil || answer.GetResourceVersion() != "") {
		if taken := r.free(ctx, rec, want); taken != nil {
			return taken
		}
	}
	return err
}

// undo deletes what was just made for a record that cannot be deployed.
func (r *Reconciler) undo(ctx context.Context, made []*unstructured.Unstructured) error {
	var failed []error
	for _, o := range made {
		failed = append(failed, applyset.Delete(ctx, r.Client, o))
	}
	return errors.Join(failed...)
}

// wasDeployed reports whether all objects of a record were there once.
func wasDeployed(rec *v1alpha1.DeploymentRecord) bool { return len(rec.Status.ResourceRefs) > 0 }

// prune deletes the children that were not rendered.
func (r *Reconciler) prune(ctx context.Context, rendered *render.Rendered, there []child) (kept, dropped []child, err error) {
	for i := range there {
		c := &there[i]
		if slices.ContainsFunc(rendered.Objects, func(o *unstructured.Unstructured) bool { return same(c, o) }) {
			kept = append(kept, *c)
			continue
		}
		if err := applyset.Delete(ctx, r.Client, c.Object); err != nil {
			return nil, nil, err
		}
		dropped = append(dropped, *c)
	}
	return kept, dropped, nil
}

// own makes the record the object's controller.
func own(rec *v1alpha1.DeploymentRecord, o *unstructured.Unstructured) {
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(rec, recordKind)})
}

// free refuses to take over an object that another user made.
func (r *Reconciler) free(ctx context.Context, rec *v1alpha1.DeploymentRecord, want *unstructured.Unstructured) error {
	have, err := applyset.Metadata(ctx, r.Live, want)
	if err != nil || have == nil || metav1.IsControlledBy(have, rec) { // the cache has yet to see it
		return err
	}
	by := "nobody"
	if c := metav1.GetControllerOf(have); c != nil {
		by = c.Kind + " " + c.Name
	}
	return &render.Error{Reason: v1alpha1.ReasonNameTaken, Err: fmt.Errorf("there is a %s %s already, of %s", want.GetKind(), want.GetName(), by)}
}

// apply has the API server take over what is wanted of an object. What it refuses for what the object says is a refusal of the record.
func (r *Reconciler) apply(ctx context.Context, o *unstructured.Unstructured, how ...client.PatchOption) error {
	err := applyset.Object(ctx, r.Client, o, client.FieldOwner(FieldOwner), how...)
	if _, refused := errors.AsType[*applyset.RefusedError](err); refused {
		return &render.Error{Reason: v1alpha1.ReasonRefused, Err: err}
	}
	return err
}
