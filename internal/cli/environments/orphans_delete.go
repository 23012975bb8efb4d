// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/environments/render"
)

const (
	namespaceKind = "Namespace"
	claimKind     = "PersistentVolumeClaim"
)

// madeKinds are the kinds of what is made for environments. What is made of these by others has an owner.
func madeKinds(scheme *runtime.Scheme) (kinds []schema.GroupVersionKind, err error) {
	others := []runtime.Object{&corev1.Namespace{}, &appsv1.ControllerRevision{}, &corev1.Pod{}}
	objects := slices.Concat(others, render.Kinds(), render.OptionalKinds())
	for _, o := range objects {
		kind, err := apiutil.GVKForObject(o, scheme)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

// madeForEnvironments lists what has the labels of an environment, of all namespaces: metadata only, since what is in a
// Secret is not needed. What may not be listed is told, and makes the list incomplete.
func madeForEnvironments(o *command.Options, ctx context.Context, c client.Client) (made []metav1.PartialObjectMetadata, complete bool, err error) {
	kinds, err := madeKinds(c.Scheme())
	if err != nil {
		return nil, false, err
	}
	complete = true
	for _, kind := range kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := c.List(ctx, list, client.HasLabels{v1alpha1.EnvironmentLabel, v1alpha1.EnvironmentNamespaceLabel})
		switch {
		case apierrors.IsForbidden(err):
			o.Warn("not allowed: list %s of all namespaces", kind.Kind)
			complete = false
		case err != nil && command.NoSuchKind(err):
			complete = complete && kind == render.RouteKind // who lists Environments next hears of the others
		case err != nil:
			return nil, false, fmt.Errorf("list %s of all namespaces: %w", kind.Kind, err)
		}
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(kind)
			made = append(made, list.Items[i])
		}
	}
	return made, complete, nil
}

// resource is how kubectl names an orphan.
func (a *Orphan) resource() string {
	return resourceName(schema.FromAPIVersionAndKind(a.APIVersion, a.Kind), a.Name)
}

// resourceName is how kubectl names an object of a kind.
func resourceName(kind schema.GroupVersionKind, name string) string {
	resource := strings.ToLower(kind.Kind)
	if kind.Group != "" {
		resource += "." + kind.Group
	}
	return resource + "/" + name
}

// where is the same for messages.
func (a *Orphan) where() string {
	if a.Namespace == "" {
		return a.resource()
	}
	return a.resource() + " in namespace " + a.Namespace
}

// deletable says whether an orphan is deleted, and if it is not, why.
func (a *Orphan) deletable(retained bool) (bool, string) {
	switch {
	case a.State == OrphanForeign:
		return false, "left alone: Berth gives no namespace such a name"
	case a.State == OrphanTerminating:
		return false, "is being deleted already"
	case a.State == OrphanRetained && !retained:
		return false, "retained (--include-retained deletes it)"
	}
	return true, ""
}

// deleteOrphans deletes orphans, and says of each what came of it.
func deleteOrphans(o *command.Options, ctx context.Context, c client.Client, list *Orphans, retained bool) error {
	failed := false
	for i := range list.Orphans {
		a := &list.Orphans[i]
		ok, why := a.deletable(retained)
		if ok {
			done, err := deleteOrphan(ctx, c, a)
			if err != nil {
				failed = true
				fmt.Fprintf(o.ErrOut, "error: delete %s: %v\n", a.where(), err)
				continue
			}
			why = done
		}
		fmt.Fprintf(o.Out, "%s %s\n", a.where(), why)
	}
	if len(list.Orphans) == 0 {
		fmt.Fprintln(o.ErrOut, "No orphans found.")
	}
	if failed {
		return command.ErrFailed
	}
	return nil
}

// deleteOrphan deletes an orphan, unless its environment is there by now. An object of the same name that is another stays.
func deleteOrphan(ctx context.Context, c client.Client, a *Orphan) (string, error) {
	namespace, name, _ := strings.Cut(a.Environment, "/")
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &v1alpha1.Environment{})
	switch {
	case err == nil:
		return "left alone: Environment " + a.Environment + " is there now", nil
	case !apierrors.IsNotFound(err) || command.NoSuchKind(err):
		return "", err
	}
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
	object.SetGroupVersionKind(schema.FromAPIVersionAndKind(a.APIVersion, a.Kind))
	err = c.Delete(ctx, object, client.Preconditions{UID: &a.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if apierrors.IsNotFound(err) {
		return "was gone already", nil
	}
	return "deleted", err
}
