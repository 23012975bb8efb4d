// SPDX-License-Identifier: Apache-2.0

package decisionobjects

import (
	"context"
	"encoding/json"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/client"
	"berth.dev/berth/internal/policies/decision"
)

const (
	plural       = "schedulingdecisions"
	fieldManager = "berth-scheduler"
	// timeout bounds a request, and page the number of objects in a response.
	timeout = 5 * time.Second
	page    = 500
)

// Client reads and writes SchedulingDecisions.
type Client interface {
	// List returns the records of all objects, none if the API server does not serve the kind.
	List(ctx context.Context) ([]*decision.Record, error)
	// Apply creates or replaces an object.
	Apply(ctx context.Context, object *v1alpha1.SchedulingDecision) error
	// Delete deletes the object of a pod, if there is one.
	Delete(ctx context.Context, pod types.NamespacedName) error
}

// NewClient returns a Client of an API server.
func NewClient(config *rest.Config) (Client, error) {
	c, err := client.New(config)
	if err != nil {
		return nil, err
	}
	return &restClient{c}, nil
}

type restClient struct{ rest rest.Interface }

// List implements Client.
func (c *restClient) List(ctx context.Context) ([]*decision.Record, error) {
	var records []*decision.Record
	p := pager.New(c.page)
	p.PageSize = page
	err := p.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		if d, ok := o.(*v1alpha1.SchedulingDecision); ok {
			records = append(records, decision.FromObject(d))
		}
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return records, err
}

func (c *restClient) page(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	list := &v1alpha1.SchedulingDecisionList{}
	return list, c.rest.Get().Resource(plural).VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Into(list)
}

// Apply implements Client.
func (c *restClient) Apply(ctx context.Context, object *v1alpha1.SchedulingDecision) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	o := &metav1.PatchOptions{FieldManager: fieldManager, Force: new(true)}
	return c.rest.Patch(types.ApplyPatchType).Namespace(object.Namespace).Resource(plural).Name(object.Name).
		VersionedParams(o, metav1.ParameterCodec).Body(body).Do(ctx).Error()
}

// Delete implements Client.
func (c *restClient) Delete(ctx context.Context, pod types.NamespacedName) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := c.rest.Delete().Namespace(pod.Namespace).Resource(plural).Name(pod.Name).Body(&metav1.DeleteOptions{}).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
