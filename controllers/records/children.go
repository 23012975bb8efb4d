// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/records/render"
)

const knativeGroup = "serving.knative.dev"

var (
	deploymentKind = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	scalerKind     = schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}
	knativeService = schema.GroupVersionKind{Group: knativeGroup, Version: "v1", Kind: "Service"}
)

// Labelled are the kinds of which nothing but the children of records has to be kept in memory.
func Labelled() []client.Object {
	return []client.Object{
		&appsv1.Deployment{}, &corev1.Service{}, &corev1.ConfigMap{}, &autoscalingv2.HorizontalPodAutoscaler{}, &networkingv1.NetworkPolicy{},
	}
}

// watched are the kinds that manifests may make, but for Knative's.
func watched() []client.Object {
	return append(Labelled(), &policyv1.PodDisruptionBudget{}, &v1alpha1.CapacityMix{}, &v1alpha1.ResourceLimit{})
}

// byController is the index of children in the cache: the UID of what controls them.
const byController = "controller"

// index has the cache know children by their controllers. It is called before the cache starts.
func index(ctx context.Context, cache client.FieldIndexer) error {
	for _, kind := range watched() {
		err := cache.IndexField(ctx, kind, byController, func(o client.Object) []string {
			if c := metav1.GetControllerOfNoCopy(o); c != nil {
				return []string{string(c.UID)}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("index %T: %w", kind, err)
		}
	}
	return nil
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
	take := func(list client.ObjectList, by client.ListOption) error {
		// No one writes to what is found.
		if err := r.Client.List(ctx, list, client.InNamespace(rec.Namespace), by, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list the objects of DeploymentRecord %s/%s: %w", rec.Namespace, rec.Name, err)
		}
		return meta.EachListItem(list, func(item runtime.Object) error {
			o, ok := item.(client.Object)
			if !ok {
				return fmt.Errorf("%T is no object", item)
			}
			if !metav1.IsControlledBy(o, rec) {
				return nil
			}
			gvk, err := apiutil.GVKForObject(o, r.Client.Scheme())
			found = append(found, child{o, gvk})
			return err
		})
	}
	for _, kind := range watched() {
		list, err := applyset.ListOf(kind, r.Client.Scheme())
		if err != nil {
			return nil, err
		}
		if err := take(list, client.MatchingFields{byController: string(rec.UID)}); err != nil {
			return nil, err
		}
	}
	if r.around.served(knativeGroup) && r.around.watched() {
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(knativeService.GroupVersion().WithKind("ServiceList"))
		if err := take(l, client.MatchingLabels{v1alpha1.OwnerLabel: render.LabelValue(rec.Name)}); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// find returns the child of a kind and a name, nil if there is none.
func find(there []child, kind schema.GroupKind, name string) *child {
	for i := range there {
		if c := &there[i]; c.GetName() == name && c.kind.GroupKind() == kind {
			return c
		}
	}
	return nil
}

// of returns the child that a rendered object is, nil if it is not there.
func of(there []child, want *unstructured.Unstructured) *child {
	return find(there, want.GroupVersionKind().GroupKind(), want.GetName())
}

func same(c *child, o *unstructured.Unstructured) bool {
	return c.GetName() == o.GetName() && c.kind.GroupKind() == o.GroupVersionKind().GroupKind()
}
