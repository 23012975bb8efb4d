// SPDX-License-Identifier: Apache-2.0

package evictions

import (
	"context"
	"fmt"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/handler"
	"berth.dev/berth/internal/mix/evictions"
)

// ours selects the Evictions for which Berth is a responder: evictionrequest-controller labels them with the names of the responders.
var ours = fmt.Sprintf("%s in (%s,%s)", v1alpha1.EvictionResponder,
	lifecyclev1alpha1.EvictionParticipantRoleResponder, lifecyclev1alpha1.EvictionParticipantRoleRequesterResponder)

// watch keeps the table up to date. What an Eviction has beside a request for Berth is not kept.
func (c *Controller) watch(ctx context.Context) {
	from := cache.NewFilteredListWatchFromClient(c.Client.LifecycleV1alpha1().RESTClient(), "evictions", metav1.NamespaceAll,
		func(o *metav1.ListOptions) { o.LabelSelector = ours })
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: from, ObjectType: &lifecyclev1alpha1.Eviction{}, Transform: trimmed,
		Handler: handler.Funcs[*lifecyclev1alpha1.Eviction]{
			Add: c.set,
			Delete: func(e *lifecyclev1alpha1.Eviction) {
				c.remove(types.NamespacedName{Namespace: e.Namespace, Name: e.Name})
			},
		},
	})
	go informer.RunWithContext(ctx)
}

func trimmed(object any) (any, error) {
	if e, is := object.(*lifecyclev1alpha1.Eviction); is {
		return evictions.Trimmed(e), nil
	}
	return object, nil // a deletion that was missed
}
