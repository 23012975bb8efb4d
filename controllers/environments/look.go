// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/kube/applyset"
)

// look is what there is of an environment, and what there should be.
type look struct {
	env        *v1alpha1.Environment
	components []render.Component
	input      render.Input
	// wanted are the objects that there should be, there those that are, pods those of the components.
	wanted []*unstructured.Unstructured
	there  []child
	pods   []corev1.Pod
	// situation is what is observed of the components.
	situation render.Situation
	// abandoned says that it never came to run, and nothing of it should be there.
	abandoned bool
}

// child is an object that was made for an environment.
type child struct {
	client.Object
	kind string
}

// watched are the kinds that are made for an environment, may be listed and are always served: no Secrets, and no HTTPRoutes.
func watched() (list []client.Object) {
	for _, kind := range render.Kinds() {
		if _, is := kind.(*corev1.Secret); !is {
			list = append(list, kind.(client.Object)) //nolint:forcetypeassert // of the API
		}
	}
	return list
}

// observe reads what there is of an environment from the cache, and its Secrets from the API server.
func (r *Reconciler) observe(ctx context.Context, l *look) error {
	in, mine := client.InNamespace(l.env.Status.Namespace), client.MatchingLabels(render.Labels(l.env))
	for _, kind := range watched() {
		gvk, err := apiutil.GVKForObject(kind, r.Client.Scheme())
		if err != nil {
			return err
		}
		list, err := applyset.ListOf(kind, r.Client.Scheme())
		if err != nil {
			return err
		}
		if err := r.Client.List(ctx, list, in, mine, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list the objects of Environment %s/%s: %w", l.env.Namespace, l.env.Name, err)
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			l.there = append(l.there, child{item.(client.Object), gvk.Kind}) //nolint:forcetypeassert // of the API
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := r.observeSecrets(ctx, l); err != nil {
		return err
	}
	if err := r.observeRoutes(ctx, l); err != nil {
		return err
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, in, client.MatchingLabels{v1alpha1.EnvironmentLabel: l.env.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the pods of Environment %s/%s: %w", l.env.Namespace, l.env.Name, err)
	}
	l.pods = pods.Items
	return nil
}

// observeSecrets reads the Secrets that were made for an environment. They cannot be listed, but their names are known.
func (r *Reconciler) observeSecrets(ctx context.Context, l *look) error {
	for _, name := range []string{render.Database, render.Backend} {
		s := &corev1.Secret{}
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: l.env.Status.Namespace, Name: name}, s)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("read Secret %s/%s: %w", l.env.Status.Namespace, name, err)
		case madeFor(s, l.env):
			l.there = append(l.there, child{s, secretKind})
		}
	}
	return nil
}

// madeFor reports whether an object was made for an environment.
func madeFor(o client.Object, env *v1alpha1.Environment) bool {
	return o.GetLabels()[v1alpha1.EnvironmentLabel] == env.Name && o.GetLabels()[v1alpha1.EnvironmentNamespaceLabel] == env.Namespace
}

// decide finds the objects that there should be. How far the environment is started follows from what there is, and what
// there should be from how far it is started.
func (l *look) decide(scheme *runtime.Scheme) error {
	env := l.env
	l.situation = render.Situation{Environment: env, Components: l.components}
	l.situation.Observed = l.observed(nil)
	l.input.Restarts = l.situation.RestartOf()
	for {
		l.input.OpenStages = env.Status.OpenStages
		if err := l.render(scheme); err != nil {
			return err
		}
		l.situation.Observed = l.observed(l.wanted)
		open := l.situation.OpenStages()
		if open == env.Status.OpenStages {
			return nil
		}
		env.Status.OpenStages = open
	}
}

func (l *look) render(scheme *runtime.Scheme) error {
	l.wanted = nil
	for _, o := range render.Render(&l.input) {
		gvk, err := apiutil.GVKForObject(o, scheme)
		if err != nil {
			return err
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			return fmt.Errorf("render %s: %w", gvk.Kind, err)
		}
		u := &unstructured.Unstructured{Object: content}
		u.SetGroupVersionKind(gvk)
		// No one wants a status, and a time that is not set is no time.
		delete(u.Object, "status")
		unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
		unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "creationTimestamp")
		applyset.Mark(u, nil)
		l.wanted = append(l.wanted, u)
	}
	return nil
}

// find returns what there is of a kind and a name, nil for nothing.
func (l *look) find(kind, name string) *child {
	i := slices.IndexFunc(l.there, func(c child) bool { return c.kind == kind && c.GetName() == name })
	if i < 0 {
		return nil
	}
	return &l.there[i]
}

// missing are the objects that the cluster has not, or not as they should be.
func (l *look) missing() (list []*unstructured.Unstructured) {
	for _, want := range l.wanted {
		if have := l.find(want.GetKind(), want.GetName()); have == nil || !applyset.Covered(have.Object, want) {
			list = append(list, want)
		}
	}
	return list
}
