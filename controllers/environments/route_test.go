// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/kube/applyset"
)

var (
	public     = types.NamespacedName{Namespace: "edge", Name: "public"}
	httpRoutes = schema.GroupResource{Group: render.RouteKind.Group, Resource: "httproutes"}
	// noKind and noPath are the errors of a cluster without the CRD: from discovery, and from the path where it was.
	noKind error = &meta.NoKindMatchError{GroupKind: render.RouteKind.GroupKind(), SearchedVersions: []string{"v1"}}
	noPath error = apierrors.NewGenericServerResponse(404, "PATCH", httpRoutes, "frontend", "404 page not found", 0, true)
)

func schemeOf(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	return scheme
}

// stall is an environment with a frontend and a backend.
func stall(domains ...string) *v1alpha1.Environment {
	e := &v1alpha1.Environment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "stall", UID: "1", Generation: 1}}
	e.Status.Namespace = "team"
	at := func(port int32) v1alpha1.EnvironmentContainer {
		return v1alpha1.EnvironmentContainer{Image: "nginx", Ports: []v1alpha1.EnvironmentPort{{ContainerPort: port}}}
	}
	e.Spec.Stack.Backend = &v1alpha1.BackendComponent{Container: at(3000)}
	e.Spec.Stack.Frontend = &v1alpha1.FrontendComponent{Container: at(80), Domains: domains, TLSEnabled: true}
	return e
}

// reconciler has a cluster that answers by funcs. Gateway may be of no name.
func reconciler(t *testing.T, gateway types.NamespacedName, funcs interceptor.Funcs, objects ...client.Object) *Controller {
	t.Helper()
	scheme := schemeOf(t)
	scheme.AddKnownTypeWithName(render.RouteKind, &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(render.RouteKind.GroupVersion().WithKind("HTTPRouteList"), &unstructured.UnstructuredList{})
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(funcs).WithObjects(objects...).Build()
	return &Controller{Options: Options{
		Client: c, Live: c, Clock: testclock.NewFakePassiveClock(time.Unix(1_700_000_000, 0)),
		Settings: render.Settings{Gateway: gateway, TLSListener: "https", Exposure: v1alpha1.ExposureNone, VolumeSize: "1Gi", Domains: render.Domains{"*": {"*"}}},
	}}
}

// planned is what a controller desires, as if nothing had been observed.
func planned(t *testing.T, r *Controller, env *v1alpha1.Environment) *observation {
	t.Helper()
	l := &observation{env: env, components: stack.Components(&env.Spec.Stack)}
	l.input = render.Input{Environment: env, Settings: r.Settings, Namespace: env.Status.Namespace, OpenStages: stack.Stages}
	require.NoError(t, l.render(r.Client.Scheme()))
	return l
}

// route is one that was made for an environment.
func route(env *v1alpha1.Environment, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(render.RouteKind)
	u.SetNamespace(env.Status.Namespace)
	u.SetName(name)
	u.SetLabels(render.Labels(env))
	return u
}

// namesOf returns kinds and names, in order.
func namesOf(children []applyset.Child) (list []string) {
	for i := range children {
		list = append(list, children[i].String())
	}
	return list
}

func childOf(o client.Object, group, kind string) applyset.Child {
	return applyset.Child{Object: o, Kind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}}
}

func routeChild(o client.Object) applyset.Child {
	return applyset.Child{Object: o, Kind: render.RouteKind}
}

// a cluster that does not serve HTTPRoutes has none; other errors are returned.
func TestRoutesAreListedWhereTheyAreServed(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		gateway types.NamespacedName
		answer  error
		want    []string
		err     error
		asked   int // of three looks
	}{
		"with a Gateway":                          {gateway: public, want: []string{"HTTPRoute frontend", "HTTPRoute frontend-2"}, asked: 3},
		"with a Gateway, not served":              {gateway: public, answer: noKind, asked: 3},
		"with a Gateway, not served any more":     {gateway: public, answer: noPath, asked: 3},
		"with a Gateway, not allowed":             {gateway: public, answer: apierrors.NewForbidden(httpRoutes, "", nil), asked: 3},
		"with a Gateway, broken":                  {gateway: public, answer: broken, err: broken, asked: 3},
		"without: what is left of one":            {want: []string{"HTTPRoute frontend", "HTTPRoute frontend-2"}, asked: 3},
		"without, not served: once is enough":     {answer: noKind, asked: 1},
		"without, not allowed: nor may it delete": {answer: apierrors.NewForbidden(httpRoutes, "", nil), asked: 1},
		"without, broken: again":                  {answer: broken, err: broken, asked: 3},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			env := stall("a.example")
			other := route(env, "other")
			other.SetLabels(map[string]string{v1alpha1.EnvironmentLabel: "other", v1alpha1.EnvironmentNamespaceLabel: "team"})
			r := reconciler(t, tc.gateway, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				asked++
				if tc.answer != nil {
					return tc.answer
				}
				return c.List(ctx, list, opts...)
			}}, route(env, "frontend"), route(env, "frontend-2"), other)
			for range 3 {
				l := &observation{env: env}
				require.ErrorIs(t, r.observeRoutes(t.Context(), l), tc.err)
				assert.Equal(t, tc.want, namesOf(l.children))
			}
			assert.Equal(t, tc.asked, asked)
		})
	}
}

// where HTTPRoutes cannot be made everything else is, and the message names what is missing.
func TestTheRestGoesOnWithoutRoutes(t *testing.T) {
	crd := `environments.gateway is "edge/public", but the cluster serves no HTTPRoute of gateway.networking.k8s.io/v1: the CRD httproutes.gateway.networking.k8s.io is missing`
	forbidden := apierrors.NewForbidden(httpRoutes, "frontend", errors.New("who are you"))
	for name, tc := range map[string]struct {
		get, patch error
		want       string
	}{
		"not served":               {get: noKind, want: crd},
		"not served, only written": {patch: noKind, want: crd},
		"not served any more":      {patch: noPath, want: crd},
		"not allowed to look":      {get: forbidden, want: "who are you"},
		"not allowed to make":      {patch: forbidden, want: "who are you"},
	} {
		t.Run(name, func(t *testing.T) {
			var applied []string
			r := reconciler(t, public, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if o.GetObjectKind().GroupVersionKind() == render.RouteKind && tc.get != nil {
						return tc.get
					}
					return c.Get(ctx, key, o, opts...)
				},
				Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
					if o.GetObjectKind().GroupVersionKind() == render.RouteKind && tc.patch != nil {
						return tc.patch
					}
					applied = append(applied, o.GetObjectKind().GroupVersionKind().Kind+" "+o.GetName())
					return nil
				},
			})
			env := stall("a.example")
			l := planned(t, r, env)
			var rest []string
			for _, w := range l.desired {
				if w.GetKind() != "HTTPRoute" {
					rest = append(rest, w.GetKind()+" "+w.GetName())
				}
			}
			require.Less(t, len(rest), len(l.desired))
			// First, that what comes after it is made all the same.
			l.desired[0], l.desired[len(l.desired)-1] = l.desired[len(l.desired)-1], l.desired[0]
			var refused *applyset.RefusedError
			require.ErrorAs(t, r.apply(t.Context(), l), &refused)
			require.ErrorContains(t, refused, tc.want)
			assert.ElementsMatch(t, rest, applied)
		})
	}
}

// A namespace that is gone is no missing CRD, and another kind that is not served is no matter of Gateways.
func TestOtherErrorsAreNotOfRoutes(t *testing.T) {
	r := reconciler(t, public, interceptor.Funcs{})
	route, service := route(stall(), "frontend"), &unstructured.Unstructured{}
	service.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Service"})
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "team")
	assert.Same(t, gone, r.explain(route, gone))
	assert.Same(t, noKind, r.explain(service, noKind))
	assert.NoError(t, r.explain(route, nil))
	var refused *applyset.RefusedError
	assert.ErrorAs(t, r.explain(route, fmt.Errorf("apply HTTPRoute frontend: %w", noKind)), &refused)
	assert.Equal(t, v1alpha1.ReasonRefused, refused.Reason)
}

// when the setting changes, what led the domains before goes, but not before what takes its place is there.
func TestOneKindTakesThePlaceOfTheOther(t *testing.T) {
	for name, tc := range map[string]struct {
		gateway types.NamespacedName
		domains []string
		refused bool
		want    []string // without the Service, which goes always
	}{
		"to a Gateway":                {public, []string{"a.example"}, false, []string{"Ingress frontend", "HTTPRoute frontend-2"}},
		"to one that is not served":   {public, []string{"a.example"}, true, []string{"HTTPRoute frontend-2"}},
		"back to an Ingress":          {types.NamespacedName{}, []string{"a.example"}, false, []string{"HTTPRoute frontend", "HTTPRoute frontend-2"}},
		"back to one that is refused": {types.NamespacedName{}, []string{"a.example"}, true, nil},
		"no domains":                  {public, nil, true, []string{"Ingress frontend", "HTTPRoute frontend", "HTTPRoute frontend-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			env := stall(tc.domains...)
			ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "frontend", UID: "2", Labels: render.Labels(env)}}
			r := reconciler(t, tc.gateway, interceptor.Funcs{}, ingress, route(env, "frontend"), route(env, "frontend-2"))
			l := planned(t, r, env)
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "old", Labels: render.Labels(env)}}
			l.children = []applyset.Child{
				childOf(service, "", "Service"),
				childOf(ingress, "networking.k8s.io", ingressKind),
				routeChild(route(env, "frontend")),
				routeChild(route(env, "frontend-2")),
			}
			plan := applyset.Diff(l.desired, l.children, l.fate)
			plan.Apply = nil
			set := r.set(env)
			if tc.refused {
				plan.Apply = l.desired[:1]
				set.Explain = func(*unstructured.Unstructured, error) error {
					return &applyset.RefusedError{Err: errors.New("refused")}
				}
			}
			result, err := set.Reconcile(t.Context(), &plan)
			require.NoError(t, err)
			assert.ElementsMatch(t, append([]string{"Service old"}, tc.want...), namesOf(result.Pruned))
		})
	}
}

// what the API server fills in, and what a Gateway's controller writes, has nothing applied again.
func TestARouteIsNotAppliedAgain(t *testing.T) {
	for _, tls := range []bool{true, false} {
		env := stall("a.example", "*.b.example")
		env.Spec.Stack.Frontend.TLSEnabled = tls
		l := planned(t, reconciler(t, public, interceptor.Funcs{}), env)
		want := l.desired[len(l.desired)-1]
		require.Equal(t, render.RouteKind, want.GroupVersionKind())
		have := want.DeepCopy()
		have.SetUID("3")
		have.SetGeneration(1)
		have.SetResourceVersion("4")
		have.SetFinalizers([]string{"somebody/else"})
		have.Object["status"] = map[string]any{"parents": []any{map[string]any{"controllerName": "x"}}}
		spec := have.Object["spec"].(map[string]any)
		filled(spec["parentRefs"], map[string]any{"group": "gateway.networking.k8s.io", "kind": "Gateway"})
		filled(spec["rules"], map[string]any{"matches": []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/"}}}})
		filled(spec["rules"].([]any)[0].(map[string]any)["backendRefs"], map[string]any{"group": "", "kind": "Service", "weight": int64(1)})
		assert.True(t, applyset.Covered(have, want.Unstructured))
		assert.Equal(t, want.Object["spec"], spec, "there is nothing left to fill in")

		env.Spec.Stack.Frontend.TLSEnabled = !tls
		changed := planned(t, reconciler(t, public, interceptor.Funcs{}), env)
		assert.False(t, applyset.Covered(have, changed.desired[len(changed.desired)-1].Unstructured), "a listener is not kept")
	}
}

// filled adds the defaults to each item of a list.
func filled(list any, defaults map[string]any) {
	for _, item := range list.([]any) {
		for key, value := range defaults {
			if _, is := item.(map[string]any)[key]; !is {
				item.(map[string]any)[key] = value
			}
		}
	}
}

func TestTheConditionOfDomains(t *testing.T) {
	reasonOf := func(t *testing.T, gateway types.NamespacedName, env *v1alpha1.Environment, children ...applyset.Child) string {
		t.Helper()
		r := reconciler(t, gateway, interceptor.Funcs{})
		l := planned(t, r, env)
		l.children = children
		l.situation = render.Situation{Environment: env, Components: l.components, Observed: map[string]render.Observed{}}
		r.compose(l, nil)
		c := meta.FindStatusCondition(env.Status.Conditions, v1alpha1.ConditionRoutesAccepted)
		if c == nil {
			return ""
		}
		assert.Equal(t, c.Reason == "Accepted", c.Status == metav1.ConditionTrue)
		return c.Reason
	}
	env := stall("a.example")
	taken := route(env, "frontend")
	taken.Object["status"] = map[string]any{"parents": []any{map[string]any{
		"parentRef":  map[string]any{"namespace": "edge", "name": "public"},
		"conditions": []any{map[string]any{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}},
	}}}
	assert.Equal(t, "NotApplied", reasonOf(t, public, env))
	assert.Equal(t, "Waiting", reasonOf(t, public, env, routeChild(route(env, "frontend"))))
	assert.Equal(t, "Accepted", reasonOf(t, public, env, routeChild(taken)))
	assert.Empty(t, reasonOf(t, types.NamespacedName{}, env), "it goes when an Ingress takes the place")
	assert.Empty(t, reasonOf(t, public, stall()))
	none := stall("a.example")
	none.Spec.Stack.Frontend = nil
	assert.Empty(t, reasonOf(t, public, none))
}

// A start waits for every source that reports when it is filled: one of a kind that is not served never is. Once it is filled all are
// looked at, since a route may have been deleted before.
func TestTheStartDoesNotWaitForRoutes(t *testing.T) {
	synced, scheme := make(chan struct{}), runtime.NewScheme()
	scheme.AddKnownTypeWithName(render.RouteKind, &metav1.PartialObjectMetadata{})
	routes := routesOf(&informertest.FakeInformers{Scheme: scheme, Synced: new(true)}, func() { close(synced) })
	_, waits := routes.(source.SyncingSource)
	assert.False(t, waits)
	require.NoError(t, routes.Start(t.Context(), nil))
	select {
	case <-synced:
	case <-time.After(time.Minute):
		require.Fail(t, "no event reports that they are read")
	}
}
