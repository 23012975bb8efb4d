// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/kube/kinds"
)

const ingressKind = "Ingress"

// observeRoutes reads the HTTPRoutes of an environment from the API server, because the cluster may not serve them, and a cache
// would wait for that. Without a Gateway it reads what is left of one, until there is nothing left.
func (c *Controller) observeRoutes(ctx context.Context, v *observation) error {
	key, none := client.ObjectKeyFromObject(v.env), c.Settings.Gateway.Name == ""
	if _, done := c.routeless.Load(key); none && done {
		return nil
	}
	in, ofEnvironment := client.InNamespace(v.env.Status.Namespace), client.MatchingLabels(render.Labels(v.env))
	found, err := c.set(v.env).List(ctx, c.Live, kinds.ListOf(render.RouteKind), in, ofEnvironment)
	// A controller that may not list them may not create them either, and an environment that requires one reports it then.
	if err != nil && !unserved(err) && !apierrors.IsForbidden(err) {
		return fmt.Errorf("list the HTTPRoutes of Environment %s/%s: %w", v.env.Namespace, v.env.Name, err)
	}
	v.children = append(v.children, found...)
	if none && len(found) == 0 {
		c.routeless.Store(key, true)
	}
	return nil
}

// unserved reports whether an error means that the cluster does not serve a kind.
func unserved(err error) bool {
	if meta.IsNoMatchError(err) {
		return true
	}
	status, is := errors.AsType[*apierrors.StatusError](err)
	// A missing namespace is not found either.
	return is && apierrors.IsNotFound(err) && (status.ErrStatus.Details == nil || status.ErrStatus.Details.Kind != "namespaces")
}

// routes reports whether a kind routes domains to the frontend.
func routes(kind string) bool { return kind == ingressKind || kind == render.RouteKind.Kind }

// domains returns whether the Gateway routes the domains to the frontend; requested is false if it need not.
func (c *Controller) domains(v *observation) (accepted render.Acceptance, requested bool) {
	allowed, refused := c.Settings.Domains.Split(v.env.Namespace, v.env.Spec.Stack.Frontend)
	switch {
	case v.env.DeletionTimestamp != nil:
		return render.Acceptance{}, false
	case len(refused) > 0:
		message := fmt.Sprintf("environments.domains does not allow namespace %s: %s", v.env.Namespace, strings.Join(refused, ", "))
		return render.Acceptance{Reason: v1alpha1.ReasonDomainNotAllowed, Message: message}, true
	case c.Settings.Gateway.Name == "" || len(allowed) == 0:
		return render.Acceptance{}, false
	}
	var desired []string
	for _, d := range v.desired {
		if d.GetKind() == render.RouteKind.Kind {
			desired = append(desired, d.GetName())
		}
	}
	if len(desired) == 0 { // the environment is refused as a whole
		return render.Acceptance{Reason: v1alpha1.ReasonNotApplied, Message: "no HTTPRoute is made of them"}, true
	}
	var routes []*unstructured.Unstructured
	for i := range v.children {
		if u, is := v.children[i].Object.(*unstructured.Unstructured); is {
			routes = append(routes, u)
		}
	}
	return c.Settings.Accepted(desired, routes), true
}

// watchRoutes returns a source of the HTTPRoutes of environments. They have a cache of their own, of metadata, because the
// manager's does not start for a kind that is not served.
func watchRoutes(mgr manager.Manager, synced func()) (source.Source, error) {
	has, err := labels.NewRequirement(v1alpha1.EnvironmentLabel, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	routes, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient:           mgr.GetHTTPClient(),
		Scheme:               mgr.GetScheme(),
		Mapper:               mgr.GetRESTMapper(),
		DefaultLabelSelector: labels.NewSelector().Add(*has),
		DefaultTransform:     cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("make a cache of HTTPRoutes: %w", err)
	}
	if err := mgr.Add(routes); err != nil {
		return nil, fmt.Errorf("add a cache of HTTPRoutes: %w", err)
	}
	return routesOf(routes, synced), nil
}

// routesOf returns a source that the start does not wait for: it tries again until HTTPRoutes are served. Then it calls synced,
// because an HTTPRoute that was deleted before causes no event.
func routesOf(routes cache.Cache, synced func()) source.Source {
	kind := &metav1.PartialObjectMetadata{}
	kind.SetGroupVersionKind(render.RouteKind)
	of := source.Kind(routes, client.Object(kind), toEnvironment())
	return source.Func(func(ctx context.Context, q applyset.Queue) error {
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
