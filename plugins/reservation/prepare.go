// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/policies/reservations"
	"berth.dev/berth/plugins/internal/perscheduler"
)

// Preparers are the Preparer of each scheduler. The plugin that binds groups of pods reads it.
type Preparers = perscheduler.Values[*Preparer]

// Preparer makes Reservations for pods that are about to be bound, so that a scheduler that is killed between the bindings of
// a group keeps the capacity for the rest of it.
type Preparer struct{ shared *shared }

// Prepare creates the Reservation of a pod on its node, and returns its name.
func (p *Preparer) Prepare(ctx context.Context, pod *corev1.Pod, node, group string, expires time.Duration) (string, error) {
	r := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: "prepared-" + string(pod.UID), Labels: map[string]string{v1alpha1.BindGroupLabel: group},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
	}}
	r.Spec = v1alpha1.ReservationSpec{
		PodName: pod.Name, NodeName: node, SchedulerName: pod.Spec.SchedulerName,
		ExpirationSeconds:       new(int32(expires / time.Second)), //nolint:gosec // at most 900
		TTLSecondsAfterFinished: new(int32(0)),
	}
	if !reservations.SetRequests(&r.Spec, resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})) {
		return "", nil // a pod that requests nothing finds room again
	}
	created, err := p.shared.writer.create(ctx, r)
	if apierrors.IsAlreadyExists(err) { // of an earlier attempt, perhaps on another node
		if err = p.Cancel(ctx, pod.Namespace, r.Name); err == nil {
			created, err = p.shared.writer.create(ctx, r)
		}
	}
	if err != nil {
		return "", fmt.Errorf("prepare the binding: %w", err)
	}
	// The status has what is held: no user may write it, and the next scheduler holds it without looking for a node.
	created.Status.Holds = []v1alpha1.Hold{{NodeName: node}}
	if created, err = p.shared.writer.status(ctx, created); err != nil {
		return "", errors.Join(fmt.Errorf("prepare the binding: %w", err), p.Cancel(ctx, pod.Namespace, r.Name))
	}
	p.shared.holdings.Set(created)
	return r.Name, nil
}

// Cancel deletes a Reservation that Prepare created. It does not count any more before the watch has delivered this.
func (p *Preparer) Cancel(ctx context.Context, namespace, name string) error {
	err := p.shared.writer.cancel(ctx, namespace, name)
	if err == nil {
		p.shared.holdings.Delete(namespace, name)
	}
	return err
}

// Prepared returns the names of the pods of a group whose bindings are prepared.
func (p *Preparer) Prepared(namespace, group string) []string {
	return p.shared.holdings.Prepared(namespace, group, p.shared.clock.Now())
}
