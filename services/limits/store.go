// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/kinds"
)

const (
	plural = "resourcelimits"
	// fieldManager owns what the services write.
	fieldManager = v1alpha1.ServiceFieldManager
)

var kind = v1alpha1.SchemeGroupVersion.WithKind("ResourceLimit")

// store reads and writes ResourceLimits. Its objects are unstructured, because the type of the API changes the text of quantities.
type store struct{ client ctrlclient.Client }

func (s *store) get(ctx context.Context, namespace, name string) (*object, error) {
	u := named(namespace, name)
	return decode(u, s.client.Get(ctx, ctrlclient.ObjectKeyFromObject(u), u))
}

func (s *store) create(ctx context.Context, o *object) (*object, error) {
	u, err := encode(o)
	if err != nil {
		return nil, err
	}
	return decode(u, s.client.Create(ctx, u))
}

// update replaces the version that o was read as, and no other.
func (s *store) update(ctx context.Context, o *object) (*object, error) {
	u, err := encode(o)
	if err != nil {
		return nil, err
	}
	return decode(u, s.client.Update(ctx, u))
}

// allowDeletion lets the controller remove its finalizer although the limit is in use.
func (s *store) allowDeletion(ctx context.Context, o *object) (*object, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.UID, "resourceVersion": o.ResourceVersion,
		"annotations": map[string]string{v1alpha1.ForceDeleteAnnotation: "true"},
	}})
	if err != nil {
		return nil, fmt.Errorf("encode a patch: %w", err)
	}
	u := named(o.Namespace, o.Name)
	return decode(u, s.client.Patch(ctx, u, ctrlclient.RawPatch(types.MergePatchType, patch)))
}

// remove deletes the version that o was read as, and no other.
func (s *store) remove(ctx context.Context, o *object) error {
	only := ctrlclient.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion}
	return s.client.Delete(ctx, named(o.Namespace, o.Name), only)
}

// list returns up to first limits, and the token of the page after them.
func (s *store) list(
	ctx context.Context, namespace string, selector labels.Selector, after string, first int,
) ([]*object, string, error) {
	page := kinds.ListOf(kind)
	err := s.client.List(ctx, page, ctrlclient.InNamespace(namespace), ctrlclient.MatchingLabelsSelector{Selector: selector},
		ctrlclient.Limit(int64(first)), ctrlclient.Continue(after))
	if err != nil {
		return nil, "", err
	}
	objects := make([]*object, len(page.Items))
	for i := range page.Items {
		if objects[i], err = decode(&page.Items[i], nil); err != nil {
			return nil, "", err
		}
	}
	return objects, page.GetContinue(), nil
}

func named(namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": kind.GroupVersion().String(),
		"kind":       kind.Kind,
		"metadata":   map[string]any{"namespace": namespace, "name": name},
	}}
}

func encode(o *object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&o.stored)
	if err != nil {
		return nil, fmt.Errorf("encode a ResourceLimit: %w", err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// decode returns an answer of the API server, or its error. Fields that are not as this version of the CRD has them, because
// another version accepted them, are left out and named: one such limit must not hide the others, and can be deleted.
func decode(u *unstructured.Unstructured, err error) (*object, error) {
	if err != nil {
		return nil, err
	}
	o := &object{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &o.stored) == nil {
		return o, nil
	}
	content := maps.Clone(u.Object)
	for _, part := range []string{"spec", "status"} {
		delete(content, part)
	}
	o.stored = stored{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &o.stored); err != nil {
		return nil, fmt.Errorf("decode an answer of the API server: %w", err)
	}
	o.unreadable = append(readable(u.Object["spec"], "spec", &o.Spec), readable(u.Object["status"], "status", &o.Status)...)
	return o, nil
}

// readable decodes those fields of a part of an object that can be decoded, and returns the paths of the others.
func readable[T any](part any, path string, into *T) (unreadable []string) {
	fields, ok := part.(map[string]any)
	if !ok && part != nil {
		return []string{path}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		text, err := json.Marshal(map[string]any{name: fields[name]})
		if err == nil {
			err = json.Unmarshal(text, new(T)) // a field that fails may be decoded in part
		}
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			unreadable = append(unreadable, path+"."+name)
		}
	}
	return unreadable
}
