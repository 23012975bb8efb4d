// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/client"
	"berth.dev/berth/internal/records/render"
)

const (
	plural = "deploymentrecords"
	// fieldManager owns what the services write.
	fieldManager = "berth-services"
)

type record = v1alpha1.DeploymentRecord

// store reads and writes DeploymentRecords.
type store struct{ client ctrlclient.Client }

func newStore(config *rest.Config) (*store, error) {
	c, err := client.NewUncached(config, fieldManager)
	if err != nil {
		return nil, fmt.Errorf("create a client: %w", err)
	}
	return &store{c}, nil
}

func (s *store) get(ctx context.Context, namespace, name string) (*record, error) {
	r := &record{}
	return r, s.client.Get(ctx, ctrlclient.ObjectKey{Namespace: namespace, Name: name}, r)
}

func (s *store) create(ctx context.Context, r *record) error { return s.client.Create(ctx, r) }

// update replaces the version that r was read as, and no other.
func (s *store) update(ctx context.Context, r *record) error { return s.client.Update(ctx, r) }

// remove deletes the record that r was read as, whatever its version, and no other of its name.
func (s *store) remove(ctx context.Context, r *record) error {
	return s.client.Delete(ctx, r, ctrlclient.Preconditions{UID: &r.UID})
}

// list returns the records of a namespace that match, in the order of their names.
func (s *store) list(ctx context.Context, namespace string, match func(*record) bool) (all []*record, err error) {
	err = client.EachItem(ctx, s.client, &v1alpha1.DeploymentRecordList{}, namespace, func(r *record) {
		if match(r) {
			all = append(all, r)
		}
	})
	return all, err
}

// template reports whether a namespace has a template of a name or an alias.
func (s *store) template(ctx context.Context, namespace, name string) (found bool, err error) {
	err = client.EachItem(ctx, s.client, &v1alpha1.DeploymentTemplateList{}, namespace, func(t *v1alpha1.DeploymentTemplate) {
		found = found || render.GoesBy(t, name)
	})
	return found, err
}
