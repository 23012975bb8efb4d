// SPDX-License-Identifier: Apache-2.0

package deploymentrecord

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/deployment"
)

const knativeGroup = "serving.knative.dev"

var knativeService = schema.GroupVersionKind{Group: knativeGroup, Version: "v1", Kind: "Service"}

// lists are the kinds that manifests may make, but for Knative's.
func lists() []client.ObjectList {
	return []client.ObjectList{
		&appsv1.DeploymentList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &autoscalingv2.HorizontalPodAutoscalerList{},
		&networkingv1.NetworkPolicyList{}, &policyv1.PodDisruptionBudgetList{}, &v1alpha1.CapacityMixList{}, &v1alpha1.ResourceLimitList{},
	}
}

// Labelled are the kinds of which nothing but the children of records has to be kept in memory.
func Labelled() []client.Object {
	return []client.Object{
		&appsv1.Deployment{}, &corev1.Service{}, &corev1.ConfigMap{}, &autoscalingv2.HorizontalPodAutoscaler{}, &networkingv1.NetworkPolicy{},
	}
}

// child is an object that was made for a record.
type child struct {
	client.Object
	kind schema.GroupVersionKind
}

func (c *child) String() string { return c.kind.Kind + " " + c.GetName() }

func names(children []child) string {
	var list []string
	for i := range children {
		list = append(list, children[i].String())
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// children returns what the cluster has for a record.
func (r *Reconciler) children(ctx context.Context, rec *v1alpha1.DeploymentRecord) (found []child, err error) {
	all := lists()
	if r.groups.served(knativeGroup) && r.groups.watched() {
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(knativeService.GroupVersion().WithKind("ServiceList"))
		all = append(all, l)
	}
	mine := client.MatchingLabels{v1alpha1.OwnerLabel: deployment.LabelValue(rec.Name)}
	for _, list := range all {
		if err := r.Client.List(ctx, list, client.InNamespace(rec.Namespace), mine); err != nil {
			return nil, fmt.Errorf("list the objects of DeploymentRecord %s/%s: %w", rec.Namespace, rec.Name, err)
		}
		err := eachItem(list, func(o client.Object) error {
			if !metav1.IsControlledBy(o, rec) {
				return nil
			}
			gvk, err := apiutil.GVKForObject(o, r.Client.Scheme())
			found = append(found, child{o, gvk})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func eachItem(list client.ObjectList, do func(client.Object) error) error {
	items, err := extract(list)
	for _, o := range items {
		err = errors.Join(err, do(o))
	}
	return err
}

func extract(list client.ObjectList) (items []client.Object, err error) {
	err = meta.EachListItem(list, func(o runtime.Object) error {
		item, ok := o.(client.Object)
		if !ok {
			return fmt.Errorf("%T is no object", o)
		}
		items = append(items, item)
		return nil
	})
	return items, err
}

// bring has the cluster have what was rendered, and nothing else of the record.
// Everything is tried first: where one object is refused, none is written.
func (r *Reconciler) bring(ctx context.Context, rec *v1alpha1.DeploymentRecord, rendered *deployment.Rendered) ([]child, []note, error) {
	there, err := r.children(ctx, rec)
	if err != nil {
		return nil, nil, err
	}
	missing := r.missing(rec, rendered, there)
	made := 0
	for _, want := range missing {
		fresh := find(there, want) == nil
		if fresh {
			made++
		}
		if err := r.try(ctx, rec, want, fresh); err != nil {
			return nil, nil, err
		}
	}
	for _, want := range missing {
		if err := r.hold(ctx, want, rendered.Floating(want), find(there, want)); err != nil {
			return nil, nil, err
		}
		if err := r.apply(ctx, want); err != nil {
			return nil, nil, err
		}
	}
	var notes []note
	if len(missing) > 0 {
		notes = append(notes, note{v1alpha1.EventReasonApplied, fmt.Sprintf("applied %d objects, %d of them new", len(missing), made)})
		log.FromContext(ctx).Info("Applied what was rendered", "objects", len(missing), "new", made)
	}
	kept, dropped, err := r.prune(ctx, rendered, there)
	if err != nil {
		return nil, nil, err
	}
	if len(dropped) > 0 {
		notes = append(notes, note{v1alpha1.EventReasonPruned, "deleted what is not asked for any more: " + names(dropped)})
	}
	for _, o := range missing { // the cache has yet to see it
		kept = slices.DeleteFunc(kept, func(c child) bool { return same(&c, o) })
		kept = append(kept, child{o, o.GroupVersionKind()})
	}
	return kept, notes, nil
}

// missing returns the objects that the cluster has not, or not as they were rendered.
func (r *Reconciler) missing(rec *v1alpha1.DeploymentRecord, rendered *deployment.Rendered, there []child) (list []*unstructured.Unstructured) {
	for _, want := range rendered.Objects {
		own(rec, want)
		have := find(there, want)
		if path := rendered.Floating(want); have != nil && path != nil {
			unstructured.RemoveNestedField(want.Object, path...)
		}
		if have == nil || !r.covered(have, want) {
			list = append(list, want)
		}
	}
	return list
}

// try applies an object without effect. One that is new to the record must not be
// there: the answer then has a version, which one that would be made has not.
func (r *Reconciler) try(ctx context.Context, rec *v1alpha1.DeploymentRecord, want *unstructured.Unstructured, fresh bool) error {
	answer := want.DeepCopy()
	err := r.apply(ctx, answer, client.DryRunAll)
	if fresh && (err != nil || answer.GetResourceVersion() != "") {
		if taken := r.free(ctx, rec, want); taken != nil {
			return taken
		}
	}
	return err
}

// prune deletes the children that were not rendered.
func (r *Reconciler) prune(ctx context.Context, rendered *deployment.Rendered, there []child) (kept, dropped []child, err error) {
	for i := range there {
		c := &there[i]
		if slices.ContainsFunc(rendered.Objects, func(o *unstructured.Unstructured) bool { return same(c, o) }) {
			kept = append(kept, *c)
			continue
		}
		if err := r.delete(ctx, c); err != nil {
			return nil, nil, err
		}
		dropped = append(dropped, *c)
	}
	return kept, dropped, nil
}

func find(there []child, want *unstructured.Unstructured) *child {
	for i := range there {
		if same(&there[i], want) {
			return &there[i]
		}
	}
	return nil
}

func same(c *child, o *unstructured.Unstructured) bool {
	return c.GetName() == o.GetName() && c.kind.GroupKind() == o.GroupVersionKind().GroupKind()
}

// own makes the record the object's controller.
func own(rec *v1alpha1.DeploymentRecord, o *unstructured.Unstructured) {
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(rec, v1alpha1.SchemeGroupVersion.WithKind("DeploymentRecord"))})
}

// free refuses to take over an object that somebody else made.
func (r *Reconciler) free(ctx context.Context, rec *v1alpha1.DeploymentRecord, want *unstructured.Unstructured) error {
	have := &metav1.PartialObjectMetadata{}
	have.SetGroupVersionKind(want.GroupVersionKind())
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("look for %s %s/%s: %w", want.GetKind(), want.GetNamespace(), want.GetName(), err)
	case metav1.IsControlledBy(have, rec): // the cache has yet to see it
		return nil
	}
	by := "nobody"
	if c := metav1.GetControllerOf(have); c != nil {
		by = c.Kind + " " + c.Name
	}
	return &deployment.Error{Reason: v1alpha1.ReasonNameTaken, Err: fmt.Errorf("there is a %s %s already, of %s", want.GetKind(), want.GetName(), by)}
}

// apply has the API server take over what is wanted of an object. What it refuses for what the object says is a refusal of the record.
func (r *Reconciler) apply(ctx context.Context, o *unstructured.Unstructured, how ...client.PatchOption) error {
	name := o.GetKind() + " " + o.GetName()
	err := r.Client.Patch(ctx, o, client.Apply, append(how, client.FieldOwner(FieldOwner), client.ForceOwnership, strictly{})...)
	switch {
	case err == nil:
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return errNamespaceEnds
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err), untyped(err):
		return &deployment.Error{Reason: v1alpha1.ReasonRefused, Err: fmt.Errorf("the API server refuses %s: %w", name, err)}
	}
	return fmt.Errorf("apply %s: %w", name, err)
}

// errNamespaceEnds says that nothing can be made any more; the record goes too.
var errNamespaceEnds = errors.New("the namespace is being deleted")

// untyped reports whether the API server could not read what was applied as an
// object of its kind. It says so as an internal error.
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

// delete removes the object that was seen, and no other of its name.
func (r *Reconciler) delete(ctx context.Context, c *child) error {
	if c.GetDeletionTimestamp() != nil {
		return nil
	}
	uid := c.GetUID()
	err := r.Client.Delete(ctx, c.Object, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s: %w", c, err)
	}
	return nil
}
