// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/kube/kinds"
	"berth.dev/berth/internal/records/render"
)

const knativeGroup = "serving.knative.dev"

var (
	deploymentKind = schema.GroupKind{Group: "apps", Kind: "Deployment"}
	scalerKind     = schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}
	knativeService = schema.GroupVersionKind{Group: knativeGroup, Version: "v1", Kind: "Service"}
)

// Labelled are the kinds of which only the children of records have to be kept in memory.
func Labelled() []client.Object {
	return []client.Object{
		&appsv1.Deployment{},
		&corev1.Service{},
		&corev1.ConfigMap{},
		&autoscalingv2.HorizontalPodAutoscaler{},
		&networkingv1.NetworkPolicy{},
	}
}

// watched are the kinds that manifests may have, except Knative's.
func watched() []client.Object {
	return append(Labelled(), &policyv1.PodDisruptionBudget{}, &v1alpha1.CapacityMix{}, &v1alpha1.ResourceLimit{})
}

// byController is the index of children in the cache: the UID of their controller.
const byController = "controller"

// index makes the cache index children by their controllers. It is called before the cache starts.
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

// set applies the objects of a record. All of them are validated before the first is applied, so that a refused object leaves
// the others as they were.
func (c *Controller) set(rec *v1alpha1.DeploymentRecord) *applyset.Set {
	return &applyset.Set{
		Client:        c.Client,
		Live:          c.Live,
		FieldOwner:    FieldOwner,
		DefaultsOwner: NFROwner,
		Owns:          func(o metav1.Object) bool { return metav1.IsControlledBy(o, rec) },
		Atomic:        true,
	}
}

// children returns the objects of a record.
func (c *Controller) children(ctx context.Context, rec *v1alpha1.DeploymentRecord) ([]applyset.Child, error) {
	set, in := c.set(rec), client.InNamespace(rec.Namespace)
	found, err := set.ListKinds(ctx, watched(), in, client.MatchingFields{byController: string(rec.UID)})
	if err != nil || !c.capabilities.served(knativeGroup) || !c.capabilities.watched.Load() {
		return found, err
	}
	ofRecord := client.MatchingLabels{v1alpha1.OwnerLabel: render.LabelValue(rec.Name)}
	services, err := set.List(ctx, c.Client, kinds.ListOf(knativeService), in, ofRecord)
	return append(found, services...), err
}
