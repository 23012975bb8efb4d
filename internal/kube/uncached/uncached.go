// SPDX-License-Identifier: Apache-2.0

// Package uncached has the client of the services. It is apart from package client, which the scheduler uses: the client of
// controller-runtime has its metrics linked, and they would take the gauge of the leader away from those of the scheduler.
package uncached

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// kinds are those that services serve.
var kinds = []string{"ResourceLimit", "DeploymentRecord", "DeploymentTemplate", "Environment", "DatabaseBackup", "DatabaseRestore"}

// New returns a client for the namespaced kinds of Berth's group that services serve. It has no cache, so that callers
// read what they wrote, and discovers nothing, so that a missing CRD is the error of a call and not of the start. It writes as
// owner, and the API server rejects unknown fields.
func New(cfg *rest.Config, owner string) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1alpha1.SchemeGroupVersion})
	for _, kind := range kinds {
		mapper.Add(v1alpha1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	cfg = WithDeadlines(cfg)
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c, err := client.New(cfg, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("create a client: %w", err)
	}
	return client.WithFieldValidation(client.WithFieldOwner(c, owner), metav1.FieldValidationStrict), nil
}

// EachItem lists objects in pages, and calls each for every item. List is empty.
func EachItem[T client.Object](ctx context.Context, c client.Client, list client.ObjectList, namespace string, each func(T)) error {
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		page := list.DeepCopyObject().(client.ObjectList) //nolint:forcetypeassert // a copy of one
		return page, c.List(ctx, page, client.InNamespace(namespace), client.Limit(o.Limit), client.Continue(o.Continue))
	})
	return pages.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		each(o.(T)) //nolint:forcetypeassert // an item of the list
		return nil
	})
}
