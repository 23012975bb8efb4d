// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
	"berth.dev/berth/internal/mix/rebalance"
)

// metadata reads the metadata of an object as the API server has it at this moment, nil if there is none of that name.
type metadata func(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*metav1.PartialObjectMetadata, error)

// readMetadata returns metadata of an API server. The controller may list these kinds, for its watches, so it lists one.
func readMetadata(c client.Reader) metadata {
	return func(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*metav1.PartialObjectMetadata, error) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := c.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{metav1.ObjectNameField: name})
		if err != nil || len(list.Items) == 0 {
			return nil, err
		}
		return &list.Items[0], nil
	}
}

// checkMix returns a hold if the mix is not the one any more that was decided by. A watch that broke may be behind by half a minute,
// in which replicas would move that have to stay.
func (a *calls) checkMix(ctx context.Context, w *evaluation, v rebalance.Verdict, pod *corev1.Pod) *rebalance.Hold {
	if a.metadata == nil {
		return nil
	}
	what, err := "", error(nil)
	switch {
	case w.Mix != "":
		what, err = a.mixChanged(ctx, w)
	case w.Group.Governing.Source == governing.SourceController:
		what, err = a.annotationsChanged(ctx, w, pod)
	}
	switch {
	case err != nil:
		return w.hold(v, rebalance.ReasonCapacityUnproven, holdRefused, "read the mix: %v", err)
	case what != "":
		return w.hold(v, rebalance.ReasonStaleView, holdChanged, "%s, which the watch has not shown yet", what)
	}
	return nil
}

// mixChanged is what has happened to the CapacityMix of a workload, "" for nothing.
func (a *calls) mixChanged(ctx context.Context, w *evaluation) (what string, err error) {
	now, err := a.read(ctx, v1alpha1.SchemeGroupVersion.WithKind("CapacityMix"), w.Group.Key.Namespace, w.Mix)
	switch {
	case err != nil:
		return "", err
	case now == nil:
		return "CapacityMix " + w.Mix + " is gone", nil
	case (rebalance.Version{UID: now.UID, Generation: now.Generation}) != w.Spec:
		return "CapacityMix " + w.Mix + " was changed", nil
	}
	return "", nil
}

// annotationsChanged is what has happened to the mix in the annotations of a pod's controller, "" for nothing.
func (a *calls) annotationsChanged(ctx context.Context, w *evaluation, pod *corev1.Pod) (what string, err error) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return "", nil
	}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	if kind.Group != appsv1.GroupName && kind.Group != batchv1.GroupName {
		// A tenant wrote the reference. The server of another group may be slow or gone, and would hold everyone's moves.
		return fmt.Sprintf("pod %s names its controller as a %s", pod.Name, kind.GroupKind()), nil
	}
	now, err := a.read(ctx, kind, pod.Namespace, ref.Name)
	switch {
	case err != nil:
		return "", err
	case now == nil || now.UID != ref.UID:
		return ref.Kind + " " + ref.Name + " is gone", nil
	case !w.Group.Governing.Same(a.State.MixUnder(pod, now)):
		return "the mix in the annotations of " + ref.Kind + " " + ref.Name + " was changed", nil
	}
	return "", nil
}

// read is metadata that ends in time.
func (a *calls) read(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (
	o *metav1.PartialObjectMetadata, err error,
) {
	err = a.bounded(ctx, func(ctx context.Context) error {
		o, err = a.metadata(ctx, kind, namespace, name)
		return err
	})
	return o, err
}
