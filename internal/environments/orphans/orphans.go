// SPDX-License-Identifier: Apache-2.0

// Package orphans finds and deletes what was created for Environments that no longer exist.
package orphans

import (
	"cmp"
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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/kube/kinds"
)

const (
	namespaceKind = "Namespace"
	claimKind     = "PersistentVolumeClaim"
	secretKind    = "Secret"
)

// State determines whether an orphan may be deleted.
type State string

// States of orphans.
const (
	// Unused may be deleted.
	Unused State = "Orphan"
	// Retained has volumes, which the user may still need.
	Retained State = "Retained"
	// Terminating is being deleted.
	Terminating State = "Terminating"
	// Foreign is a namespace whose name is not one of Berth's.
	Foreign State = "Foreign"
)

// States returns all of them.
func States() []State { return []State{Unused, Retained, Terminating, Foreign} }

// Orphan is an object that was created for an Environment that no longer exists.
type Orphan struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace is "" for a namespace.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Environment is the namespace and the name of the Environment.
	Environment string `json:"environment"`
	State       State  `json:"state"`
	// Claims is the number of volume claims in a namespace.
	Claims  int         `json:"claims,omitempty"`
	Created metav1.Time `json:"created"`
	UID     types.UID   `json:"uid"`
}

// Found is the result of a search.
type Found struct {
	Orphans []Orphan
	// Forbidden are the kinds that the caller may not list.
	Forbidden []string
	// Incomplete is set where a kind could not be listed.
	Incomplete bool
}

// Find searches the whole cluster for orphans, or for those of Environments of one namespace. A caller that may not list Secrets, as
// the controller, leaves them out.
func Find(ctx context.Context, c client.Reader, scheme *runtime.Scheme, namespace string, secrets bool) (*Found, error) {
	out := &Found{}
	// Objects first: the Environment of one that is created in between is in the list that follows.
	created, err := out.created(ctx, c, scheme, secrets)
	if err != nil {
		return nil, err
	}
	var list v1alpha1.EnvironmentList
	if err := c.List(ctx, &list); err != nil {
		return nil, err
	}
	out.Orphans = among(created, list.Items, namespace)
	return out, nil
}

// created lists what has the labels of an Environment. It reads metadata only: the data of a Secret is not needed.
func (f *Found) created(ctx context.Context, c client.Reader, scheme *runtime.Scheme, secrets bool) (
	all []metav1.PartialObjectMetadata, err error,
) {
	list, err := createdKinds(scheme)
	if err != nil {
		return nil, err
	}
	for _, kind := range list {
		if kind.Kind == secretKind && !secrets {
			continue
		}
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := c.List(ctx, page, client.HasLabels{v1alpha1.EnvironmentLabel, v1alpha1.EnvironmentNamespaceLabel})
		switch {
		case apierrors.IsForbidden(err):
			f.Forbidden, f.Incomplete = append(f.Forbidden, kind.Kind), true
		case err != nil && kinds.NotServed(err):
			f.Incomplete = f.Incomplete || kind != render.RouteKind // routes are optional
		case err != nil:
			return nil, fmt.Errorf("list %s of all namespaces: %w", kind.Kind, err)
		}
		for i := range page.Items {
			page.Items[i].SetGroupVersionKind(kind)
			all = append(all, page.Items[i])
		}
	}
	return all, nil
}

// createdKinds are the kinds of the objects that are created for Environments. What others create from these has an owner.
func createdKinds(scheme *runtime.Scheme) (list []schema.GroupVersionKind, err error) {
	others := []runtime.Object{&corev1.Namespace{}, &appsv1.ControllerRevision{}, &corev1.Pod{}}
	for _, o := range slices.Concat(others, render.Kinds(), render.OptionalKinds()) {
		kind, err := apiutil.GVKForObject(o, scheme)
		if err != nil {
			return nil, err
		}
		list = append(list, kind)
	}
	return list, nil
}

// among returns those of some objects whose Environment does not exist, without what is in a namespace that is an orphan itself.
func among(created []metav1.PartialObjectMetadata, environments []v1alpha1.Environment, namespace string) []Orphan {
	gone := withoutEnvironment(created, environments, namespace)
	out := []Orphan{}
	whole := map[string]bool{}
	for i := range gone {
		if m := &gone[i]; m.Kind == namespaceKind {
			orphan := orphanOf(m)
			orphan.Claims = claimsIn(created, m.Name)
			whole[m.Name] = orphan.State != Foreign
			out = append(out, orphan)
		}
	}
	for i := range gone {
		// What has an owner is deleted with it.
		if m := &gone[i]; m.Kind != namespaceKind && !whole[m.Namespace] && metav1.GetControllerOf(m) == nil {
			out = append(out, orphanOf(m))
		}
	}
	slices.SortStableFunc(out, func(a, b Orphan) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// withoutEnvironment returns the objects whose labels name an Environment that does not exist, of one namespace if it is not "".
func withoutEnvironment(created []metav1.PartialObjectMetadata, environments []v1alpha1.Environment,
	namespace string,
) []metav1.PartialObjectMetadata {
	exists := map[string]bool{}
	for i := range environments {
		exists[environments[i].Namespace+"/"+environments[i].Name] = true
	}
	return slices.DeleteFunc(slices.Clone(created), func(m metav1.PartialObjectMetadata) bool {
		home, id := environmentOf(&m)
		return home == "" || id == "" || exists[home+"/"+id] || namespace != "" && home != namespace
	})
}

// environmentOf returns the namespace and the name of the Environment of an object, by its labels.
func environmentOf(m *metav1.PartialObjectMetadata) (namespace, name string) {
	return m.Labels[v1alpha1.EnvironmentNamespaceLabel], m.Labels[v1alpha1.EnvironmentLabel]
}

func orphanOf(m *metav1.PartialObjectMetadata) Orphan {
	home, id := environmentOf(m)
	return Orphan{
		APIVersion: m.APIVersion, Kind: m.Kind, Namespace: m.Namespace, Name: m.Name, UID: m.UID, Created: m.CreationTimestamp,
		State: stateOf(m), Environment: home + "/" + id,
	}
}

// stateOf classifies an orphan. Any user may label a namespace; only Berth names one after a hash.
func stateOf(m *metav1.PartialObjectMetadata) State {
	home, id := environmentOf(m)
	switch {
	case m.DeletionTimestamp != nil:
		return Terminating
	case m.Kind == namespaceKind && !strings.HasSuffix(m.Name, render.NamespaceOf("", home, id)):
		return Foreign
	case m.Kind == claimKind, m.Labels[v1alpha1.RetainedLabel] == "true":
		// A controller that deletes an Environment deletes its claims too, unless they are to be retained.
		return Retained
	}
	return Unused
}

// claimsIn counts the volume claims of Environments in a namespace.
func claimsIn(created []metav1.PartialObjectMetadata, namespace string) (n int) {
	for i := range created {
		if created[i].Kind == claimKind && created[i].Namespace == namespace {
			n++
		}
	}
	return n
}

// GroupVersionKind is the kind of the object.
func (o *Orphan) GroupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
}

// Deletable reports whether an orphan may be deleted, by a user who gives up volumes or one who does not.
func (o *Orphan) Deletable(includeRetained bool) bool {
	return o.State == Unused || o.State == Retained && includeRetained
}

// Delete deletes an orphan, unless its Environment exists by now; created reports that. It leaves another object of the same name alone.
// The reader must not read from a cache.
func Delete(ctx context.Context, r client.Reader, w client.Writer, o *Orphan) (created bool, err error) {
	namespace, name, _ := strings.Cut(o.Environment, "/")
	var list v1alpha1.EnvironmentList
	if err := r.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return false, err
	}
	if slices.ContainsFunc(list.Items, func(e v1alpha1.Environment) bool { return e.Name == name }) {
		return true, nil
	}
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}}
	object.SetGroupVersionKind(o.GroupVersionKind())
	return false, w.Delete(ctx, object, client.Preconditions{UID: &o.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
}
