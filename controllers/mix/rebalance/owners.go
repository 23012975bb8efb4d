// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/rebalance"
	"berth.dev/berth/internal/mix/replacement"
)

// owners reads the templates of the owners of pods as the API server has them at this moment. Nothing of them is kept. Only the
// worker calls it.
type owners struct {
	kube  kubernetes.Interface
	live  client.Reader
	clock clock.PassiveClock
	// slow are the API groups that Kubernetes does not have and that did not answer in time. A tenant may have many workloads with
	// owners of such a group, and the worker, which decides for all tenants, would wait for each.
	slow map[string]slowGroup
}

// slowGroup is until when an API group is not called, after it did not answer so many times in a row.
type slowGroup struct {
	until time.Time
	times int32
}

func newOwners(kube kubernetes.Interface, live client.Reader, passive clock.PassiveClock) *owners {
	return &owners{kube: kube, live: live, clock: passive, slow: map[string]slowGroup{}}
}

// unknownTemplate is why it cannot be known what the next pod of an owner is. It does not pass by itself.
type unknownTemplate struct{ error }

func (u unknownTemplate) Unwrap() error { return u.error }

// errNoOwner means that the owner that a pod names does not exist.
var errNoOwner = errors.New("it does not exist")

// template returns what the replacement of a pod is created from. The pod is one of a group of siblings. An error is an
// unknownTemplate, or means that a kind of Kubernetes could not be read.
func (o *owners) template(ctx context.Context, pod *corev1.Pod, siblings *clusterstate.Group) (replacement.Template, error) {
	ref := metav1.GetControllerOfNoCopy(pod)
	var t replacement.Template
	var err error
	switch m := replacement.MakerOf(ref); m {
	case replacement.Nobody, replacement.DaemonSet:
		if ref == nil {
			return t, unknownTemplate{errors.New("pods without a controller have no template")}
		}
		return t, unknownTemplate{fmt.Errorf("the controller of the pods is %s %s, and a %s has no template of pods that it creates itself",
			ref.Kind, ref.Name, ref.Kind)}
	case replacement.Unknown:
		t, err = o.unknown(ctx, pod.Namespace, ref, siblings)
	default:
		t, err = o.known(ctx, m, pod, ref)
	}
	switch {
	case errors.Is(err, errNoOwner):
		return t, unknownTemplate{fmt.Errorf("spec.template of %s %s (%s) cannot be read: %w", ref.Kind, ref.Name, ref.APIVersion, err)}
	case err == nil && t.Pod == nil:
		return t, unknownTemplate{fmt.Errorf("%s has no template", t.Owner)}
	}
	return t, err
}

// unknown reads an owner of a kind that Kubernetes does not have. Whatever fails is unknown: that kind is no business of the
// cluster, and it may be served by a program of one tenant.
func (o *owners) unknown(
	ctx context.Context, namespace string, ref *metav1.OwnerReference, siblings *clusterstate.Group,
) (replacement.Template, error) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(ref.APIVersion)
	object.SetKind(ref.Kind)
	err := o.get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, object)
	if err == nil && object.GetUID() != ref.UID {
		err = errNoOwner
	}
	switch {
	case apierrors.IsForbidden(err):
		err = fmt.Errorf("%w (berth-controller requires the verb get for it)", err)
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		err = fmt.Errorf("%w: %w", errNoOwner, err)
	}
	if err != nil {
		return replacement.Template{}, unknownTemplate{fmt.Errorf("spec.template of %s %s (%s) cannot be read: %w", ref.Kind, ref.Name,
			ref.APIVersion, err)}
	}
	var pods []map[string]string
	for i := range siblings.Assignments {
		for _, p := range siblings.Assignments[i].Members() {
			if p.Owner != nil && p.Owner.UID == ref.UID {
				pods = append(pods, p.Labels)
			}
		}
	}
	t, err := replacement.OfUnknown(object, pods)
	if err != nil {
		return t, unknownTemplate{err}
	}
	return t, nil
}

// get reads an object of a kind that Kubernetes does not have, unless its API group did not answer before.
func (o *owners) get(ctx context.Context, key client.ObjectKey, object *unstructured.Unstructured) error {
	group := object.GroupVersionKind().Group
	before := o.slow[group]
	if o.clock.Now().Before(before.until) {
		return fmt.Errorf("API group %s did not answer in time, and is not called before %s", group, before.until.UTC().Format(time.RFC3339))
	}
	ctx, cancel := context.WithTimeout(ctx, scaleTimeout)
	defer cancel()
	err := o.live.Get(ctx, key, object)
	if !isTimeout(err) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) {
		delete(o.slow, group)
		return err
	}
	times := before.times + 1
	o.slow[group] = slowGroup{o.clock.Now().Add(rebalance.Backoff(rebalance.HoldReplacement, rebalance.MaxHoldReplacement, times)), times}
	return err
}

// known reads an owner of a kind of Kubernetes. The controller may list these kinds, so it lists one.
func (o *owners) known(
	ctx context.Context, m replacement.Maker, pod *corev1.Pod, ref *metav1.OwnerReference,
) (replacement.Template, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := o.list(ctx, m, pod.Namespace, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, ref.Name).String(),
	})
	if err != nil {
		return replacement.Template{}, fmt.Errorf("read %s %s: %w", ref.Kind, ref.Name, err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return replacement.Template{}, err
	}
	var owner metav1.Object
	for i := range items {
		if found, err := meta.Accessor(items[i]); err == nil && found.GetUID() == ref.UID {
			owner = found
		}
	}
	if owner == nil {
		return replacement.Template{}, errNoOwner
	}
	t, err := replacement.Of(owner, pod)
	if err != nil {
		return t, unknownTemplate{err}
	}
	if t.Pod != nil {
		return t, nil
	}
	return t, o.readRevision(ctx, &t, pod.Namespace, ref.UID)
}

// readRevision completes the template of a StatefulSet, whose revisions are objects of their own.
func (o *owners) readRevision(ctx context.Context, t *replacement.Template, namespace string, owner types.UID) error {
	revision, err := o.kube.AppsV1().ControllerRevisions(namespace).Get(ctx, t.Revision, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return unknownTemplate{fmt.Errorf("%s of %s cannot be read: %w", t.Field, t.Owner, err)}
	case err != nil:
		return fmt.Errorf("read %s of %s: %w", t.Field, t.Owner, err)
	case metav1.GetControllerOfNoCopy(revision) == nil || metav1.GetControllerOfNoCopy(revision).UID != owner:
		return unknownTemplate{fmt.Errorf("%s is not controlled by %s", t.Field, t.Owner)}
	}
	if err := t.ReadRevision(revision); err != nil {
		return unknownTemplate{err}
	}
	return nil
}

func (o *owners) list(ctx context.Context, m replacement.Maker, namespace string, one metav1.ListOptions) (list runtime.Object, err error) {
	switch m {
	case replacement.ReplicaSet:
		return o.kube.AppsV1().ReplicaSets(namespace).List(ctx, one)
	case replacement.StatefulSet:
		return o.kube.AppsV1().StatefulSets(namespace).List(ctx, one)
	case replacement.Job:
		return o.kube.BatchV1().Jobs(namespace).List(ctx, one)
	case replacement.ReplicationController:
		return o.kube.CoreV1().ReplicationControllers(namespace).List(ctx, one)
	}
	return nil, fmt.Errorf("maker %d has no template", m)
}
