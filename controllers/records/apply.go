// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/records/render"
)

const (
	// FieldOwner applies the objects of a record and writes its status.
	FieldOwner = "berth-deployments"
	// NFROwner sets the fields that follow the measurements.
	NFROwner = "berth-deployments-nfr"
)

// apply makes the children of a record what was rendered. The validation is left out for a first deployment with a proven
// template: if an object is refused, what was just created is deleted again.
func (c *Controller) apply(
	ctx context.Context, rec *v1alpha1.DeploymentRecord, rendered *render.Rendered, template *v1alpha1.DeploymentTemplate,
) (applyset.Result, error) {
	children, err := c.children(ctx, rec)
	if err != nil {
		return applyset.Result{}, err
	}
	owner := metav1.NewControllerRef(rec, recordKind)
	desired := make([]*applyset.Desired, len(rendered.Objects))
	for i, o := range rendered.Objects {
		desired[i] = applyset.Prepare(o.Unstructured, owner, o.Unassigned)
	}
	set, plan := c.set(rec), applyset.Diff(desired, children, nil)
	first := !wasDeployed(rec) && len(children) == 0
	set.Trusted = first && c.proven.trusts(template, rec)
	result, err := set.Reconcile(ctx, &plan)
	if first && refusal(err) != nil {
		c.proven.failed(rec)
		return result, errors.Join(err, applyset.DeleteAll(ctx, c.Client, result.Applied))
	}
	if err == nil {
		c.proven.worked(template, rec)
	}
	return result, err
}

// wasDeployed reports whether all objects of a record existed once.
func wasDeployed(rec *v1alpha1.DeploymentRecord) bool { return len(rec.Status.ResourceRefs) > 0 }

// notesOf returns the events of what was changed.
func notesOf(ctx context.Context, r *applyset.Result) (notes []note) {
	if n := len(r.Applied); n > 0 {
		notes = append(notes, note{v1alpha1.EventReasonApplied, fmt.Sprintf("applied %d objects, %d of them new", n, r.Created)})
		log.FromContext(ctx).Info("Applied what was rendered", "objects", n, "new", r.Created)
	}
	if len(r.Pruned) > 0 {
		notes = append(notes, note{v1alpha1.EventReasonPruned, "deleted what is not requested any more: " + applyset.Names(r.Pruned)})
	}
	return notes
}
