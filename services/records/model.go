// SPDX-License-Identifier: Apache-2.0

package records

import (
	"cmp"
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/records/render"
	"berth.dev/berth/services/server"
)

// revision is the generation of the messages that a client uses.
type revision string

const (
	// revisionPlan has requirements in field 7 of a unit, and another type for the deployment in a status.
	revisionPlan revision = "plan"
	// revisionHead is the latest.
	revisionHead revision = "head"
)

// revisionOf is the one that a record's client used, "" if it is not known.
func revisionOf(r *record) revision {
	switch known := revision(r.Annotations[v1alpha1.WireRevisionAnnotation]); known {
	case revisionPlan, revisionHead:
		return known
	}
	return ""
}

// unit is what a client deploys.
type unit struct {
	spec v1alpha1.DeploymentRecordSpec
	// revision is empty if nothing in the unit shows it.
	revision revision
}

func (u *unit) id() string { return u.spec.DeploymentUnit.ID }

// draft is a record that is about to be written.
type draft struct{ record }

func newRecord(namespace, name string, u *unit) *draft {
	r := &draft{}
	r.APIVersion, r.Kind = v1alpha1.SchemeGroupVersion.String(), "DeploymentRecord"
	r.Namespace, r.Name = namespace, name
	r.Labels = map[string]string{v1alpha1.DeploymentIDLabel: render.Hash(u.id())}
	r.Annotations = map[string]string{v1alpha1.DeploymentIDAnnotation: u.id()}
	r.Spec = u.spec
	return r
}

// replace sets the spec to what a client deploys, and reports whether that is anything new. A field that the client's revision
// does not have stays as it is.
func (r *draft) replace(u *unit) bool {
	before, spec := r.Spec, *u.spec.DeepCopy()
	spec.Addons, spec.AddonConfigs = before.Addons, before.AddonConfigs
	spec.ResourceAllocation, spec.Enforcement = before.ResourceAllocation, before.Enforcement
	if cmp.Or(u.revision, revisionOf(&r.record)) == revisionPlan {
		spec.DeploymentUnit.FunctionBindings = before.DeploymentUnit.FunctionBindings
	} else { // the latest, or one that shows nothing of either
		spec.NFRRequirements = before.NFRRequirements
	}
	spec.NFRRequirements = keepConsistency(before.NFRRequirements, spec.NFRRequirements)
	for i := range spec.DeploymentUnit.Functions {
		f := &spec.DeploymentUnit.Functions[i]
		for j := range before.DeploymentUnit.Functions {
			if b := &before.DeploymentUnit.Functions[j]; b.FunctionKey == f.FunctionKey {
				f.NFRRequirements = keepConsistency(b.NFRRequirements, f.NFRRequirements)
			}
		}
	}
	// A client that tries again may have made its unit again. That alone is nothing new.
	requested := spec.DeploymentUnit.CreatedAt
	spec.DeploymentUnit.CreatedAt = before.DeploymentUnit.CreatedAt
	changed := !apiequality.Semantic.DeepEqual(&before, &spec)
	if changed || spec.DeploymentUnit.CreatedAt == nil && requested != nil {
		spec.DeploymentUnit.CreatedAt = requested
		changed = true
	}
	shown := u.revision != "" && string(u.revision) != r.Annotations[v1alpha1.WireRevisionAnnotation]
	r.Spec = spec
	return changed || shown
}

// keepConsistency keeps what no message has a field for.
func keepConsistency(before, n *v1alpha1.NFRRequirements) *v1alpha1.NFRRequirements {
	if before == nil || before.Consistency == "" || n != nil && n.Consistency != "" {
		return n
	}
	if n == nil {
		n = &v1alpha1.NFRRequirements{}
	}
	n.Consistency = before.Consistency
	return n
}

// mark keeps the client's revision, and its name of the call. A client that showed no revision has the one of the client before.
func (r *draft) mark(ctx context.Context, u *unit) {
	if u.revision != "" {
		metav1.SetMetaDataAnnotation(&r.ObjectMeta, v1alpha1.WireRevisionAnnotation, string(u.revision))
	}
	if id := server.Correlation(ctx); id != "" {
		metav1.SetMetaDataAnnotation(&r.ObjectMeta, v1alpha1.CorrelationIDAnnotation, id)
	} else {
		delete(r.Annotations, v1alpha1.CorrelationIDAnnotation) // that of another call
	}
}

// createdAt is when the client made the unit or, without that, when the record was made.
func createdAt(r *record) metav1.Time {
	return *cmp.Or(r.Spec.DeploymentUnit.CreatedAt, &r.CreationTimestamp)
}
