// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/client"
	"berth.dev/berth/internal/records/render"
)

const (
	plural    = "deploymentrecords"
	templates = "deploymenttemplates"
	// fieldManager owns what the services write.
	fieldManager = "berth-services"
	// chunk is how many objects are requested at a time.
	chunk = 500
)

type record = v1alpha1.DeploymentRecord

// store reads and writes DeploymentRecords at the API server, without a cache: callers read what they wrote.
type store struct{ client rest.Interface }

func newStore(config *rest.Config) (*store, error) {
	client, err := client.New(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &store{client}, nil
}

func (s *store) get(ctx context.Context, namespace, name string) (*record, error) {
	var r record
	return &r, client.Do(ctx, s.client.Get().Namespace(namespace).Resource(plural).Name(name), &r)
}

func (s *store) create(ctx context.Context, r *record) error {
	return client.Write(ctx, s.client.Post().Namespace(r.Namespace).Resource(plural), fieldManager, r, &record{})
}

// update replaces the version that r was read as, and no other.
func (s *store) update(ctx context.Context, r *record) error {
	return client.Write(ctx, s.client.Put().Namespace(r.Namespace).Resource(plural).Name(r.Name), fieldManager, r, &record{})
}

// remove deletes the record that r was read as, whatever became of it, and no other of its name.
func (s *store) remove(ctx context.Context, r *record) error {
	return client.Delete(ctx, s.client.Delete().Namespace(r.Namespace).Resource(plural).Name(r.Name), metav1.Preconditions{UID: &r.UID})
}

// list returns the records of a namespace that match, in the order of their names.
func (s *store) list(ctx context.Context, namespace string, match func(*record) bool) ([]*record, error) {
	var all []*record
	for after := ""; ; {
		var page v1alpha1.DeploymentRecordList
		if err := client.Do(ctx, s.page(namespace, plural, after), &page); err != nil {
			return nil, err
		}
		for i := range page.Items {
			if r := &page.Items[i]; match(r) {
				all = append(all, r)
			}
		}
		if after = page.Continue; after == "" {
			return all, nil
		}
	}
}

// template reports whether a namespace has a template of a name or an alias.
func (s *store) template(ctx context.Context, namespace, name string) (bool, error) {
	for after := ""; ; {
		var page v1alpha1.DeploymentTemplateList
		if err := client.Do(ctx, s.page(namespace, templates, after), &page); err != nil {
			return false, err
		}
		for i := range page.Items {
			if render.GoesBy(&page.Items[i], name) {
				return true, nil
			}
		}
		if after = page.Continue; after == "" {
			return false, nil
		}
	}
}

func (s *store) page(namespace, resource, after string) *rest.Request {
	r := s.client.Get().Namespace(namespace).Resource(resource).Param("limit", fmt.Sprint(chunk))
	if after != "" {
		r = r.Param("continue", after)
	}
	return r
}
