// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

// RouteKind is what leads domains to the frontend from a Gateway.
var RouteKind = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"}

// hostnamesPerRoute is how many an HTTPRoute may have. An environment may have more domains.
const hostnamesPerRoute = 16

// routes lead the domains to the frontend from the Gateway. The defaults of the API server are set.
func (in *Input) routes(f *v1alpha1.FrontendComponent, all []string) (out []runtime.Object) {
	for domains := range slices.Chunk(all, hostnamesPerRoute) {
		name := stack.Frontend
		if n := len(out); n > 0 {
			name = fmt.Sprintf("%s-%d", stack.Frontend, n+1)
		}
		out = append(out, in.route(name, domains, f))
	}
	return out
}

func (in *Input) route(name string, domains []string, f *v1alpha1.FrontendComponent) *unstructured.Unstructured {
	parent := map[string]any{
		"group": RouteKind.Group, "kind": "Gateway", "namespace": in.Settings.Gateway.Namespace, "name": in.Settings.Gateway.Name,
	}
	if f.TLSEnabled {
		// Without it every listener takes the route, and the frontend is served in the clear too.
		parent["sectionName"] = in.Settings.TLSListener
	}
	hostnames := make([]any, 0, len(domains))
	for _, d := range domains {
		hostnames = append(hostnames, d)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"parentRefs": []any{parent},
		"hostnames":  hostnames,
		"rules": []any{map[string]any{
			"matches": []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/"}}},
			"backendRefs": []any{map[string]any{
				"group": "", "kind": "Service", "name": stack.Frontend, "port": int64(domainPort(f)),
				"weight": int64(1),
			}},
		}},
	}}}
	u.SetGroupVersionKind(RouteKind)
	meta := in.meta(name, stack.Frontend)
	u.SetName(meta.Name)
	u.SetNamespace(meta.Namespace)
	u.SetLabels(meta.Labels)
	return u
}

// Acceptance is whether a Gateway has taken the HTTPRoutes of an environment.
type Acceptance struct {
	Accepted        bool
	Reason, Message string
}

// Accepted returns whether the Gateway has taken routes as they are now. wanted are the names of those that there should be.
func (s *Settings) Accepted(wanted []string, routes []*unstructured.Unstructured) Acceptance {
	for _, name := range wanted {
		i := slices.IndexFunc(routes, func(u *unstructured.Unstructured) bool { return u.GetName() == name })
		if i < 0 {
			return Acceptance{Reason: v1alpha1.ReasonNotApplied, Message: fmt.Sprintf("HTTPRoute %s is not there yet", name)}
		}
		if a := s.acceptedBy(routes[i]); !a.Accepted {
			return a
		}
	}
	return Acceptance{
		Accepted: true, Reason: v1alpha1.ReasonAccepted,
		Message: fmt.Sprintf("Gateway %s leads them to the frontend", s.Gateway),
	}
}

// parent is the status that the controller of a Gateway has written to a route.
type parent struct {
	ParentRef struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"parentRef"`
	Conditions []metav1.Condition `json:"conditions"`
}

func (s *Settings) acceptedBy(u *unstructured.Unstructured) Acceptance {
	var status struct {
		Parents []parent `json:"parents"`
	}
	content, _, err := unstructured.NestedMap(u.Object, "status")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status)
	}
	if err != nil {
		return Acceptance{Reason: v1alpha1.ReasonUnreadable, Message: fmt.Sprintf("the status of HTTPRoute %s: %v", u.GetName(), err)}
	}
	accepted := false
	for i := range status.Parents {
		p := &status.Parents[i]
		if p.ParentRef.Name != s.Gateway.Name || cmp.Or(p.ParentRef.Namespace, u.GetNamespace()) != s.Gateway.Namespace {
			continue
		}
		yes, no := p.says(u.GetGeneration())
		if no != nil {
			message := fmt.Sprintf("Gateway %s does not take HTTPRoute %s: %s: %s", s.Gateway, u.GetName(), no.Reason, no.Message)
			return Acceptance{Reason: no.Reason, Message: message}
		}
		accepted = accepted || yes
	}
	if !accepted {
		message := fmt.Sprintf("Gateway %s has not taken HTTPRoute %s: is it there, and does its controller run?", s.Gateway, u.GetName())
		return Acceptance{Reason: v1alpha1.ReasonWaiting, Message: message}
	}
	return Acceptance{Accepted: true}
}

// reports whether a route of a generation is accepted, and which condition denies it. The status of an earlier
// generation does not count.
func (p *parent) says(generation int64) (accepted bool, no *metav1.Condition) {
	for i := range p.Conditions {
		c := &p.Conditions[i]
		switch {
		case c.ObservedGeneration != 0 && c.ObservedGeneration < generation:
		case c.Type != "Accepted" && c.Type != "ResolvedRefs":
		case c.Status == metav1.ConditionFalse:
			return false, c
		case c.Type == "Accepted" && c.Status == metav1.ConditionTrue:
			accepted = true
		}
	}
	return accepted, nil
}
