// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/client"
)

// plural is the name of the resource in URLs.
const plural = "reservations"

// writeTimeout bounds a write.
const writeTimeout = 5 * time.Second

// writer writes Reservations.
type writer struct{ client rest.Interface }

// newWriter returns a writer, nil where there is no API server, in unit tests.
func newWriter(config *rest.Config) (*writer, error) {
	if config == nil {
		return nil, nil
	}
	c, err := client.New(config)
	if err != nil {
		return nil, err
	}
	return &writer{client: c}, nil
}

// status writes the status of a Reservation, and returns what the API server has now. It fails with a conflict if the
// Reservation was changed in between.
func (w *writer) status(ctx context.Context, r *v1alpha1.Reservation) (*v1alpha1.Reservation, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	written := &v1alpha1.Reservation{}
	err := w.client.Put().Namespace(r.Namespace).Resource(plural).Name(r.Name).SubResource("status").Body(r).Do(ctx).Into(written)
	return written, err
}

// remove deletes a Reservation, unless it is gone or was changed.
func (w *writer) remove(ctx context.Context, r *v1alpha1.Reservation) error {
	same := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &r.UID, ResourceVersion: &r.ResourceVersion}}
	err := w.delete(ctx, r.Namespace, r.Name, same)
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// cancel deletes a Reservation, whatever its version, also if the context has ended.
func (w *writer) cancel(ctx context.Context, namespace, name string) error {
	return w.delete(context.WithoutCancel(ctx), namespace, name, &metav1.DeleteOptions{})
}

func (w *writer) delete(ctx context.Context, namespace, name string, o *metav1.DeleteOptions) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := w.client.Delete().Namespace(namespace).Resource(plural).Name(name).Body(o).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// create creates a Reservation, and returns what the API server has.
func (w *writer) create(ctx context.Context, r *v1alpha1.Reservation) (*v1alpha1.Reservation, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	created := &v1alpha1.Reservation{}
	return created, w.client.Post().Namespace(r.Namespace).Resource(plural).Body(r).Do(ctx).Into(created)
}
