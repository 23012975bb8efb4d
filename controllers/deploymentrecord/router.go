// SPDX-License-Identifier: Apache-2.0

package deploymentrecord

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// routerLabels are those of the Service of a zenoh router.
var routerLabels = client.MatchingLabels{"app": "router", "platform": "oaas"}

const (
	zenohPortName = "zenoh"
	// zenohPort is where routers listen whose Service names no port.
	zenohPort = 17447
)

// findRouter returns where zenoh's peers reach a router: the first Service that
// has the labels, by namespace and name. "" is none.
func (r *Reconciler) findRouter(ctx context.Context) (string, error) {
	var list corev1.ServiceList
	// Any version will do, so the API server answers from memory.
	cheap := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}
	if err := r.Live.List(ctx, &list, cheap, routerLabels); err != nil {
		return "", fmt.Errorf("list Services of zenoh routers: %w", err)
	}
	if len(list.Items) == 0 {
		return "", nil
	}
	first := slices.MinFunc(list.Items, func(a, b corev1.Service) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return routerAddress(&first), nil
}

// routerAddress is a locator of zenoh: the port of that name, else the first one.
func routerAddress(s *corev1.Service) string {
	port := int32(zenohPort)
	if len(s.Spec.Ports) > 0 {
		port = s.Spec.Ports[0].Port
	}
	for i := range s.Spec.Ports {
		if p := &s.Spec.Ports[i]; p.Name == zenohPortName {
			port = p.Port
		}
	}
	return fmt.Sprintf("tcp/%s.%s.svc.cluster.local:%d", s.Name, s.Namespace, port)
}
