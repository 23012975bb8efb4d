// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
)

// ConditionRoutesAccepted is False while the Gateway does not lead the domains to the frontend, and where a domain is not
// allowed. It is absent where there are no domains, and where an Ingress is made of all of them, which has no such status.
const ConditionRoutesAccepted = "RoutesAccepted"

const ingressKind = "Ingress"

// observeRoutes reads the HTTPRoutes that were made for an environment from the API server: the cluster may not serve them, or
// not yet, and a cache would wait for that. Where there is no Gateway what is left of one is looked for, until nothing is.
func (r *Reconciler) observeRoutes(ctx context.Context, l *look) error {
	key, none := client.ObjectKeyFromObject(l.env), r.Settings.Gateway.Name == ""
	if _, done := r.routeless.Load(key); none && done {
		return nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(render.RouteKind.GroupVersion().WithKind(render.RouteKind.Kind + "List"))
	err := r.Live.List(ctx, list, client.InNamespace(l.env.Status.Namespace), client.MatchingLabels(render.Labels(l.env)))
	// Where they may not be listed they may not be made either, and whoever requests one hears of it then.
	if err != nil && !unserved(err) && !apierrors.IsForbidden(err) {
		return fmt.Errorf("list the HTTPRoutes of Environment %s/%s: %w", l.env.Namespace, l.env.Name, err)
	}
	for i := range list.Items {
		l.there = append(l.there, child{&list.Items[i], render.RouteKind.Kind})
	}
	if none && len(list.Items) == 0 {
		r.routeless.Store(key, true)
	}
	return nil
}

// unserved reports whether an error says that the cluster does not serve a kind.
func unserved(err error) bool {
	if meta.IsNoMatchError(err) {
		return true
	}
	status, is := errors.AsType[*apierrors.StatusError](err)
	// A namespace may be gone as well, and reports it.
	return is && apierrors.IsNotFound(err) && (status.ErrStatus.Details == nil || status.ErrStatus.Details.Kind != "namespaces")
}

// ofRoute makes a refusal of an error that says that HTTPRoutes cannot be made in this cluster, as it is now: the rest of the
// environment goes on.
func (r *Reconciler) ofRoute(want *unstructured.Unstructured, err error) error {
	switch {
	case err == nil || want.GroupVersionKind() != render.RouteKind:
		return err
	case unserved(err):
		return &refusal{v1alpha1.ReasonRefused, fmt.Errorf("environments.gateway is %q, but the cluster serves no HTTPRoute of %s: the CRD %s is missing",
			r.Settings.Gateway, render.RouteKind.GroupVersion(), "httproutes."+render.RouteKind.Group)}
	case apierrors.IsForbidden(err):
		return &refusal{v1alpha1.ReasonRefused, err}
	}
	return err
}

// leads reports whether a kind leads domains to the frontend.
func leads(kind string) bool { return kind == ingressKind || kind == render.RouteKind.Kind }

// replaced reports whether a child leads domains to the frontend that are to be led there by another kind.
func (l *look) replaced(c *child) bool {
	return leads(c.kind) && slices.ContainsFunc(l.wanted, func(w *unstructured.Unstructured) bool { return leads(w.GetKind()) && w.GetKind() != c.kind })
}

// domains says whether the Gateway leads the domains to the frontend; asked is false where it need not.
func (r *Reconciler) domains(l *look) (says render.Acceptance, asked bool) {
	allowed, refused := r.Settings.Domains.Split(l.env.Namespace, l.env.Spec.Stack.Frontend)
	switch {
	case l.env.DeletionTimestamp != nil:
		return render.Acceptance{}, false
	case len(refused) > 0:
		return render.Acceptance{Reason: v1alpha1.ReasonDomainNotAllowed, Message: fmt.Sprintf("environments.domains does not allow namespace %s: %s",
			l.env.Namespace, strings.Join(refused, ", "))}, true
	case r.Settings.Gateway.Name == "" || len(allowed) == 0:
		return render.Acceptance{}, false
	}
	var wanted []string
	for _, w := range l.wanted {
		if w.GetKind() == render.RouteKind.Kind {
			wanted = append(wanted, w.GetName())
		}
	}
	if len(wanted) == 0 { // the environment is refused as a whole
		return render.Acceptance{Reason: "NotApplied", Message: "no HTTPRoute is made of them"}, true
	}
	var routes []*unstructured.Unstructured
	for i := range l.there {
		if u, is := l.there[i].Object.(*unstructured.Unstructured); is {
			routes = append(routes, u)
		}
	}
	return r.Settings.Accepted(wanted, routes), true
}

// watchRoutes has environments looked at when their HTTPRoutes change. They have a cache of their own, of metadata: that of the
// manager cannot be made for a kind that is not served.
func watchRoutes(mgr ctrl.Manager, synced func()) (source.Source, error) {
	has, err := labels.NewRequirement(v1alpha1.EnvironmentLabel, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	routes, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultLabelSelector: labels.NewSelector().Add(*has), DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("make a cache of HTTPRoutes: %w", err)
	}
	if err := mgr.Add(routes); err != nil {
		return nil, fmt.Errorf("add a cache of HTTPRoutes: %w", err)
	}
	return routesOf(routes, synced), nil
}

// routesOf is a source that the start does not wait for: it asks again until HTTPRoutes are served. Then it calls synced: of one
// that was deleted before it heard of none.
func routesOf(routes cache.Cache, synced func()) source.Source {
	kind := &metav1.PartialObjectMetadata{}
	kind.SetGroupVersionKind(render.RouteKind)
	of := source.Kind(routes, client.Object(kind), handler.EventHandler(toEnvironment{}))
	return source.Func(func(ctx context.Context, q queue) error {
		if err := of.Start(ctx, q); err != nil {
			return err
		}
		go func() {
			if of.WaitForSync(ctx) == nil && ctx.Err() == nil {
				synced()
			}
		}()
		return nil
	})
}
