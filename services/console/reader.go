// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reader lists from informers what rights contain, and forbids all other lists as the API server does. It only lists.
type reader struct {
	client.Client // nil: it does nothing else
	objects       client.Reader
	granted       map[listing]bool
}

// List implements client.Reader. The objects are those of the informers: they must not be changed.
func (r *reader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, unused := list.(*policyv1.PodDisruptionBudgetList); unused {
		return nil // the pages show none
	}
	o := (&client.ListOptions{}).ApplyOptions(options)
	l := listing{kindOf(list), o.Namespace}
	if l.kind == nil {
		return apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf("the console does not list %T", list))
	}
	if l.kind.clusterScoped {
		l.namespace = ""
	}
	if !r.granted[l] {
		return l.forbidden()
	}
	if o.Continue != "" {
		return errors.New("list of all objects has no other page")
	}
	// Informers have all objects, without pages or versions.
	o.Limit, o.Raw, o.UnsafeDisableDeepCopy = 0, nil, new(true)
	if err := r.objects.List(ctx, list, o); err != nil {
		return err
	}
	list.SetContinue("") // the cache of controller-runtime sets a token that it does not accept
	return nil
}

// Get implements client.Reader. The pages have no right that it could depend on.
func (*reader) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return apierrors.NewForbidden(schema.GroupResource{}, key.Name, fmt.Errorf("the console does not get %T", o))
}

func (l listing) forbidden() error {
	scope := "at the cluster scope"
	if l.namespace != "" {
		scope = fmt.Sprintf("in the namespace %q", l.namespace)
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: l.kind.group, Resource: l.kind.resource}, "",
		fmt.Errorf("cannot list resource %q in API group %q %s", l.kind.resource, l.kind.group, scope))
}

// kindOf is the kind of a list, nil if the pages list no such objects.
func kindOf(list client.ObjectList) *kind {
	for i := range kinds {
		if reflect.TypeOf(kinds[i].list) == reflect.TypeOf(list) {
			return &kinds[i]
		}
	}
	return nil
}
