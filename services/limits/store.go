// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/client"
)

const (
	plural = "resourcelimits"
	// fieldManager owns what the services write.
	fieldManager = "berth-services"
)

// store reads and writes ResourceLimits at the API server, without a cache: callers read what they wrote.
type store struct{ client rest.Interface }

func newStore(config *rest.Config) (*store, error) {
	client, err := client.New(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &store{client}, nil
}

func (s *store) get(ctx context.Context, namespace, name string) (*object, error) {
	return one(ctx, s.client.Get().Namespace(namespace).Resource(plural).Name(name))
}

func (s *store) create(ctx context.Context, o *object) (*object, error) {
	return write(ctx, s.client.Post().Namespace(o.Namespace).Resource(plural), o)
}

// update replaces the version that o was read as, and no other.
func (s *store) update(ctx context.Context, o *object) (*object, error) {
	return write(ctx, s.client.Put().Namespace(o.Namespace).Resource(plural).Name(o.Name), o)
}

// allowDeletion lets the controller take its finalizer off although the limit is in use.
func (s *store) allowDeletion(ctx context.Context, o *object) (*object, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.UID, "resourceVersion": o.ResourceVersion,
		"annotations": map[string]string{v1alpha1.ForceDeleteAnnotation: "true"},
	}})
	if err != nil {
		return nil, fmt.Errorf("encode a patch: %w", err)
	}
	return one(ctx, s.client.Patch(types.MergePatchType).Namespace(o.Namespace).Resource(plural).Name(o.Name).
		Param("fieldManager", fieldManager).Body(patch))
}

// remove deletes the version that o was read as, and no other.
func (s *store) remove(ctx context.Context, o *object) error {
	return client.Delete(ctx, s.client.Delete().Namespace(o.Namespace).Resource(plural).Name(o.Name),
		metav1.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion})
}

func (s *store) list(ctx context.Context, namespace, selector, after string, first int) (*list, error) {
	var l list
	r := s.client.Get().Namespace(namespace).Resource(plural).Param("limit", fmt.Sprint(first))
	if selector != "" {
		r = r.Param("labelSelector", selector)
	}
	if after != "" {
		r = r.Param("continue", after)
	}
	return &l, client.Do(ctx, r, &l)
}

func write(ctx context.Context, r *rest.Request, o *object) (*object, error) {
	var out object
	return &out, client.Write(ctx, r, fieldManager, o, &out)
}

func one(ctx context.Context, r *rest.Request) (*object, error) {
	var o object
	return &o, client.Do(ctx, r, &o)
}
