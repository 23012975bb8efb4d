// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/kube/kinds"
	"berth.dev/berth/test/testenv"
)

// Domains are led to the frontend by a Gateway, where one is configured, as soon as the cluster serves its API; and by
// an Ingress where none is. What has taken the place of the other is all there is.
func TestDomainsByAGateway(t *testing.T) {
	s := start(t, func(c *controller.Configuration) { c.Environments.Gateway = "infra/web" })
	e := environment("shop")
	e.Spec.Stack.Frontend.Domains, e.Spec.Stack.Frontend.TLSEnabled = []string{"shop.example.com"}, true
	s.Create(e)
	e = s.until("shop", "it reports that the cluster has no HTTPRoutes", func(e *v1alpha1.Environment) bool {
		return condition(e, v1alpha1.ConditionDegraded).Reason == v1alpha1.ReasonRefused
	})
	assert.Contains(t, condition(e, v1alpha1.ConditionDegraded).Message, "the CRD httproutes.gateway.networking.k8s.io is missing")
	e = s.until("shop", "all else runs", func(e *v1alpha1.Environment) bool { return e.Status.Ready == "4/4" })

	s.serveKinds("httproutes.yaml", "httproutes."+render.RouteKind.Group)
	s.evaluateAgain("shop")
	route := &unstructured.Unstructured{}
	route.SetGroupVersionKind(render.RouteKind)
	s.Succeeds("there is an HTTPRoute", func() error {
		return s.Client.Get(s.Ctx, types.NamespacedName{Namespace: e.Status.Namespace, Name: "frontend"}, route)
	})
	hosts, _, err := unstructured.NestedStringSlice(route.Object, "spec", "hostnames")
	require.NoError(t, err)
	assert.Equal(t, []string{"shop.example.com"}, hosts)
	assert.Empty(t, s.names(e, &networkingv1.IngressList{}))
	e = s.comes("shop", v1alpha1.EnvironmentRunning)
	s.until("shop", "no Gateway has accepted the route", func(e *v1alpha1.Environment) bool {
		c := condition(e, "RoutesAccepted")
		return c.Status == "False" && c.Reason == "Waiting"
	})

	// What the controller of a Gateway writes.
	require.NoError(t, unstructured.SetNestedSlice(route.Object, []any{map[string]any{
		"controllerName": "example.com/gateway", "parentRef": map[string]any{"namespace": "infra", "name": "web", "sectionName": "https"},
		"conditions": []any{map[string]any{
			"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": route.GetGeneration(),
		}},
	}}, "status", "parents"))
	require.NoError(t, s.Client.Status().Update(s.Ctx, route))
	s.until("shop", "it is reported", func(e *v1alpha1.Environment) bool { return condition(e, "RoutesAccepted").Status == "True" })

	deleted := route.GetUID()
	s.Delete(route)
	s.Eventually("a deleted route is recreated", func() (bool, string) {
		err := s.Client.Get(s.Ctx, client.ObjectKeyFromObject(route), route)
		return err == nil && route.GetUID() != deleted, fmt.Sprint(err)
	})

	testenv.End(s.process, false)
	s.run()
	s.evaluateAgain("shop")
	s.Eventually("an Ingress has taken its place", func() (bool, string) {
		have, left := s.names(e, &networkingv1.IngressList{}), s.names(e, kinds.ListOf(render.RouteKind))
		return len(have) == 1 && len(left) == 0, fmt.Sprint(have, left)
	})
	s.release()
}
