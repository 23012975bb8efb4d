// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/endedlogs"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/kube/applyset"
)

// observation is the state of an environment in the cluster, and the desired one.
type observation struct {
	env        *v1alpha1.Environment
	components []stack.Component
	input      render.Input
	// desired are the objects that should exist, children those that do, pods those of the components.
	desired  []*applyset.Desired
	children []applyset.Child
	pods     []corev1.Pod
	// situation is the state of the components.
	situation render.Situation
	// abandoned means that the environment did not start in time, and that none of its objects should exist.
	abandoned bool
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

// observe reads the objects of an environment from the cache, and its Secrets and HTTPRoutes from the API server.
func (c *Controller) observe(ctx context.Context, v *observation) error {
	set, in := c.set(v.env), client.InNamespace(v.env.Status.Namespace)
	found, err := set.ListKinds(ctx, watched(), in, client.MatchingLabels(render.Labels(v.env)))
	if err != nil {
		return fmt.Errorf("observe Environment %s/%s: %w", v.env.Namespace, v.env.Name, err)
	}
	v.children = found
	if err := c.observeSecrets(ctx, v); err != nil {
		return err
	}
	if err := c.observeRoutes(ctx, v); err != nil {
		return err
	}
	var pods corev1.PodList
	ofEnvironment := client.MatchingLabels{v1alpha1.EnvironmentLabel: v.env.Name}
	if err := c.Client.List(ctx, &pods, in, ofEnvironment, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the pods of Environment %s/%s: %w", v.env.Namespace, v.env.Name, err)
	}
	v.pods = pods.Items
	c.restarts.observe(client.ObjectKeyFromObject(v.env), v.pods)
	if v.env.DeletionTimestamp == nil {
		c.ended.observe(ctx, v.env, v.pods, c.tuning.Load().EndedLogLines)
	}
	return nil
}

// observeSecrets reads the Secrets that were made for an environment. They cannot be listed, but their names are known.
func (c *Controller) observeSecrets(ctx context.Context, v *observation) error {
	names := []string{stack.Database, stack.Backend}
	if v.env.DeletionTimestamp != nil {
		names = append(names, endedlogs.Secret) // it is not rendered, and stays as long as the environment
	}
	for _, name := range names {
		s := &corev1.Secret{}
		err := c.Live.Get(ctx, client.ObjectKey{Namespace: v.env.Status.Namespace, Name: name}, s)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("read Secret %s/%s: %w", v.env.Status.Namespace, name, err)
		case render.MadeFor(s, v.env):
			v.children = append(v.children, applyset.Child{Object: s, Kind: corev1.SchemeGroupVersion.WithKind(secretKind)})
		}
	}
	return nil
}

// childrenOf returns the children of a kind.
func childrenOf[T client.Object](v *observation) (list []T) {
	for i := range v.children {
		if o, is := v.children[i].Object.(T); is {
			list = append(list, o)
		}
	}
	return list
}

// servicePorts returns the ports of the Services that exist, by their names.
func (v *observation) servicePorts() map[string][]corev1.ServicePort {
	out := map[string][]corev1.ServicePort{}
	for _, s := range childrenOf[*corev1.Service](v) {
		out[s.Name] = s.Spec.Ports
	}
	return out
}

// scaled returns the replicas of the Deployments that exist, by their names.
func (v *observation) scaled() map[string]int32 {
	out := map[string]int32{}
	for _, d := range childrenOf[*appsv1.Deployment](v) {
		out[d.Name] = ptr.Deref(d.Spec.Replicas, 1)
	}
	return out
}

// unassigned returns the field of an object that only its creation sets: the replicas of a component whose autoscaler sets them.
func (v *observation) unassigned(o *unstructured.Unstructured) []string {
	for i := range v.components {
		if c := &v.components[i]; o.GetKind() == string(stack.OfDeployment) && o.GetName() == c.Name && v.input.Autoscaled(c) {
			return []string{"spec", "replicas"}
		}
	}
	return nil
}

// decide finds the desired objects. How far the environment is started follows from its children, and the desired objects from
// how far it is started.
func (v *observation) decide(scheme *runtime.Scheme) error {
	env := v.env
	v.situation = render.Situation{Environment: env, Components: v.components}
	v.situation.Observed = v.observed()
	v.input.Restarts = v.situation.RestartOf()
	for {
		v.input.OpenStages = env.Status.OpenStages
		if err := v.render(scheme); err != nil {
			return err
		}
		v.situation.Observed = v.observed()
		open := v.situation.OpenStages()
		if open == env.Status.OpenStages {
			return nil
		}
		env.Status.OpenStages = open
	}
}

func (v *observation) render(scheme *runtime.Scheme) error {
	v.desired = nil
	for _, o := range render.Render(&v.input) {
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
		// The typed objects have an empty status and empty times, which must not be applied.
		delete(u.Object, "status")
		unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
		unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "creationTimestamp")
		v.desired = append(v.desired, applyset.Prepare(u, v.ownerOf(u), v.unassigned(u)))
	}
	return nil
}

// ownerOf returns the owner reference of an object. It has none in a namespace that is deleted with the environment, nor if it
// holds data, which may outlive the environment.
func (v *observation) ownerOf(o *unstructured.Unstructured) *metav1.OwnerReference {
	if hasNamespace(v.env) || holdsData(&applyset.Child{Object: o, Kind: o.GroupVersionKind()}) {
		return nil
	}
	return ownerReference(v.env)
}

// ownerReference does not block the deletion of its owner: a user who may delete an environment may not set finalizers on it.
func ownerReference(env *v1alpha1.Environment) *metav1.OwnerReference {
	owner := metav1.NewControllerRef(env, environmentKind)
	owner.BlockOwnerDeletion = nil
	return owner
}
