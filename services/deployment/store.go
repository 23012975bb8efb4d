// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/apiclient"
)

const (
	plural    = "deploymentrecords"
	templates = "deploymenttemplates"
	// fieldManager owns what the services write.
	fieldManager = "berth-services"
	// chunk is how many objects are asked for at a time.
	chunk = 500
)

type record = v1alpha1.DeploymentRecord

// store reads and writes DeploymentRecords at the API server, without a cache: callers read what they wrote.
type store struct{ client rest.Interface }

func newStore(config *rest.Config) (*store, error) {
	client, err := apiclient.New(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &store{client}, nil
}

func (s *store) get(ctx context.Context, namespace, name string) (*record, error) {
	var r record
	return &r, do(ctx, s.client.Get().Namespace(namespace).Resource(plural).Name(name), &r)
}

func (s *store) create(ctx context.Context, r *record) error {
	return write(ctx, s.client.Post().Namespace(r.Namespace).Resource(plural), r)
}

// update replaces the version that r was read as, and no other.
func (s *store) update(ctx context.Context, r *record) error {
	return write(ctx, s.client.Put().Namespace(r.Namespace).Resource(plural).Name(r.Name), r)
}

// remove deletes the record that r was read as, whatever became of it, and no other of its name.
func (s *store) remove(ctx context.Context, r *record) error {
	options, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: &metav1.Preconditions{UID: &r.UID},
	})
	if err != nil {
		return fmt.Errorf("encode the options: %w", err)
	}
	result := s.client.Delete().Namespace(r.Namespace).Resource(plural).Name(r.Name).
		SetHeader("Content-Type", runtime.ContentTypeJSON).Body(options).Do(ctx)
	return result.Error()
}

// list returns the records of a namespace that match, in the order of their names.
func (s *store) list(ctx context.Context, namespace string, match func(*record) bool) ([]*record, error) {
	var all []*record
	for after := ""; ; {
		var page v1alpha1.DeploymentRecordList
		if err := do(ctx, s.page(namespace, plural, after), &page); err != nil {
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
		if err := do(ctx, s.page(namespace, templates, after), &page); err != nil {
			return false, err
		}
		for i := range page.Items {
			if goesBy(&page.Items[i], name) {
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

func write(ctx context.Context, req *rest.Request, r *record) error {
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode a DeploymentRecord: %w", err)
	}
	return do(ctx, req.SetHeader("Content-Type", runtime.ContentTypeJSON).
		Param("fieldManager", fieldManager).Param("fieldValidation", metav1.FieldValidationStrict).Body(body), &record{})
}

func do(ctx context.Context, r *rest.Request, into any) error {
	result := r.Do(ctx)
	// Unlike Raw this says what the API server said.
	if err := result.Error(); err != nil {
		return err
	}
	b, err := result.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("decode an answer of the API server: %w", err)
	}
	return nil
}
