// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

var theGateway = types.NamespacedName{Namespace: "edge", Name: "public"}

// byGateway is an input whose domains are led to its frontend by a Gateway.
func byGateway(t require.TestingT, change func(f *v1alpha1.FrontendComponent)) *Input {
	return input(t, func(in *Input) {
		in.Settings.Gateway, in.Settings.TLSListener, in.Settings.IngressClass = theGateway, "https", "nginx"
		change(in.Environment.Spec.Stack.Frontend)
	})
}

// many are so many domains.
func many(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("d%d.example", i))
	}
	return list
}

// All of a route, as a Gateway's controller reads it.
func TestRenderRoute(t *testing.T) {
	list := Render(byGateway(t, func(*v1alpha1.FrontendComponent) {}))
	assert.Empty(t, of[*networkingv1.Ingress](list))
	u := one[*unstructured.Unstructured](t, list, stack.Frontend)
	assert.JSONEq(t, `{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
		"metadata": {"name": "frontend", "namespace": "env-shop", "labels": {
			"berth.dev/component": "environment", "berth.dev/environment": "shop-0a1b2c3d", "berth.dev/environment-namespace": "team",
			"berth.dev/environment-component": "frontend"}},
		"spec": {
			"parentRefs": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "edge", "name": "public", "sectionName": "https"}],
			"hostnames": ["shop.example", "*.shop.example"],
			"rules": [{
				"matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
				"backendRefs": [{"group": "", "kind": "Service", "name": "frontend", "port": 80, "weight": 1}]
			}]
		}}`, text(t, u))
	assert.Equal(t, u.Object, u.DeepCopy().Object, "only values that JSON has")
	assert.Same(t, list[len(list)-1], runtime.Object(u), "after the Service that it leads to")
}

// What changes a route.
func TestRenderRoutes(t *testing.T) {
	type frontend = v1alpha1.FrontendComponent
	for name, tc := range map[string]struct {
		change func(f *frontend)
		want   map[string]string // the names of the routes, and what they have
	}{
		"with TLS":   {func(*frontend) {}, map[string]string{"frontend": "2 from https to 80"}},
		"without":    {func(f *frontend) { f.TLSEnabled = false }, map[string]string{"frontend": "2 from  to 80"}},
		"no domains": {func(f *frontend) { f.Domains = nil }, map[string]string{}},
		"the first port that is TCP": {func(f *frontend) {
			f.Container.Ports = []v1alpha1.EnvironmentPort{{ContainerPort: 53, Protocol: v1alpha1.ProtocolUDP}, {ContainerPort: 8080}, {ContainerPort: 80}}
		}, map[string]string{"frontend": "2 from https to 8080"}},
		"as many domains as a route has": {func(f *frontend) { f.Domains = many(16) }, map[string]string{"frontend": "16 from https to 80"}},
		"more": {func(f *frontend) { f.Domains = many(32) }, map[string]string{
			"frontend": "16 from https to 80", "frontend-2": "16 from https to 80",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			in := byGateway(t, tc.change)
			got, hostnames := map[string]string{}, []string(nil)
			for _, u := range of[*unstructured.Unstructured](Render(in)) {
				domains, listener, port := routed(t, u)
				hostnames = append(hostnames, domains...)
				got[u.GetName()] = fmt.Sprintf("%d from %s to %d", len(domains), listener, port)
			}
			assert.Equal(t, tc.want, got)
			assert.Equal(t, in.Environment.Spec.Stack.Frontend.Domains, hostnames)
			assert.Empty(t, of[*networkingv1.Ingress](Render(in)))
		})
	}
	none := byGateway(t, func(*frontend) {})
	none.Environment.Spec.Stack.Frontend = nil
	assert.Empty(t, of[*unstructured.Unstructured](Render(none)))
}

// routed is what a route has.
func routed(t require.TestingT, u *unstructured.Unstructured) (domains []string, listener string, port int64) {
	var route struct {
		Spec struct {
			Hostnames  []string
			ParentRefs []struct{ SectionName string }
			Rules      []struct{ BackendRefs []struct{ Port int64 } }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text(t, u)), &route))
	require.Len(t, route.Spec.ParentRefs, 1)
	require.Len(t, route.Spec.Rules, 1)
	require.Len(t, route.Spec.Rules[0].BackendRefs, 1)
	return route.Spec.Hostnames, route.Spec.ParentRefs[0].SectionName, route.Spec.Rules[0].BackendRefs[0].Port
}

// Whatever an environment is, each of its domains is led to its frontend once, by one kind, and in the clear only
// where no TLS was requested.
func TestDomainsAreRoutedByOneKind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		var domains, led []string
		f := in.Environment.Spec.Stack.Frontend
		if f != nil {
			domains = f.Domains
		}
		ingresses, routes := of[*networkingv1.Ingress](Render(in)), of[*unstructured.Unstructured](Render(in))
		for _, i := range ingresses {
			for _, r := range i.Spec.Rules {
				led = append(led, r.Host)
			}
			assert.Equal(t, f.TLSEnabled, len(i.Spec.TLS) > 0)
		}
		for _, u := range routes {
			hostnames, listener, port := routed(t, u)
			led = append(led, hostnames...)
			assert.LessOrEqual(t, len(hostnames), hostnamesPerRoute, "the API server refuses more")
			assert.Equal(t, f.TLSEnabled, listener != "")
			assert.True(t, slices.ContainsFunc(f.Container.Ports, func(p v1alpha1.EnvironmentPort) bool {
				return int64(p.ContainerPort) == port && p.Protocol != v1alpha1.ProtocolUDP
			}))
		}
		assert.Equal(t, domains, led)
		assert.True(t, len(ingresses) == 0 || len(routes) == 0)
		assert.True(t, in.Settings.Gateway.Name == "" || len(ingresses) == 0)
		assert.True(t, in.Settings.Gateway.Name != "" || len(routes) == 0)
	})
}

// answered is a route of generation 2, with a status of a controller.
func answered(name, parents string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	err := u.UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
		"metadata": {"name": %q, "namespace": "edge", "generation": 2}, "status": {"parents": %s}}`, name, parents))
	if err != nil {
		panic(err)
	}
	return u
}

// The message of the Gateway's controller is passed on.
func TestAccepted(t *testing.T) {
	condition := func(parent, kind, status string, generation int) string {
		return fmt.Sprintf(`{"parentRef": %s, "controllerName": "x/y", "conditions": [{"type": %q, "status": %q, "observedGeneration": %d,
			"lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Why", "message": "because"}]}`, parent, kind, status, generation)
	}
	const ours = `{"namespace": "edge", "name": "public", "sectionName": "https"}`
	yes := condition(ours, "Accepted", "True", 2)
	for name, tc := range map[string]struct {
		parents string
		want    string
	}{
		"taken": {"[" + yes + "]", "Accepted"},
		"taken, by one that leaves out what it may": {"[" + condition(`{"name": "public"}`, "Accepted", "True", 0) + "]", "Accepted"},
		"refused":                           {"[" + condition(ours, "Accepted", "False", 2) + "]", "Why"},
		"without its Service":               {"[" + yes + "," + condition(ours, "ResolvedRefs", "False", 2) + "]", "Why"},
		"no status yet":                     {"[" + condition(ours, "Accepted", "Unknown", 2) + "]", "Waiting"},
		"a status of the generation before": {"[" + condition(ours, "Accepted", "True", 1) + "]", "Waiting"},
		"refused before":                    {"[" + condition(ours, "Accepted", "False", 1) + "," + yes + "]", "Accepted"},
		"only found":                        {"[" + condition(ours, "ResolvedRefs", "True", 2) + "]", "Waiting"},
		"a status of another kind":          {"[" + condition(ours, "Programmed", "False", 2) + "," + yes + "]", "Accepted"},
		"another Gateway's":                 {"[" + condition(`{"namespace": "edge", "name": "other"}`, "Accepted", "True", 2) + "]", "Waiting"},
		"another namespace's":               {"[" + condition(`{"namespace": "x", "name": "public"}`, "Accepted", "False", 2) + "]", "Waiting"},
		"nobody":                            {"[]", "Waiting"},
		"nonsense":                          {`"x"`, "Unreadable"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Settings{Gateway: theGateway}
			got := s.Accepted([]string{"frontend"}, []*unstructured.Unstructured{answered("frontend", tc.parents)})
			assert.Equal(t, tc.want, got.Reason, got.Message)
			assert.Equal(t, tc.want == "Accepted", got.Accepted)
			assert.NotEmpty(t, got.Message)
		})
	}
	s := &Settings{Gateway: theGateway}
	one := answered("frontend", "["+yes+"]")
	assert.Equal(t, "NotApplied", s.Accepted([]string{"frontend"}, nil).Reason)
	assert.Equal(t, "NotApplied", s.Accepted([]string{"frontend", "frontend-2"}, []*unstructured.Unstructured{one}).Reason)
	assert.Equal(t, "Waiting", s.Accepted([]string{"frontend", "frontend-2"}, []*unstructured.Unstructured{answered("frontend-2", "[]"), one}).Reason)
	assert.Equal(t, `Gateway edge/public does not take HTTPRoute frontend: Why: because`,
		s.Accepted([]string{"frontend"}, []*unstructured.Unstructured{answered("frontend", "["+condition(ours, "Accepted", "False", 2)+"]")}).Message)
}
