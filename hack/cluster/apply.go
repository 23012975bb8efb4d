// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldManager owns what ApplyFiles and Apply write.
const fieldManager = "berth-cluster"

// kustomization is no object of the API.
const kustomization = "kustomization.yaml"

var (
	crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	// applyFirst lists the kinds that others depend on.
	applyFirst = []string{"Namespace", "CustomResourceDefinition"}
)

// ApplyFiles applies YAML files by server-side apply; a directory means the .yaml, .yml and .json files in it, but for its
// kustomization.yaml. Namespaces and CRDs go first, whatever the order, and CRDs are waited for. A path that does not exist is
// an error that wraps fs.ErrNotExist.
func (c *Cluster) ApplyFiles(ctx context.Context, paths ...string) error {
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		names, err := manifestFiles(path)
		if err != nil {
			return fmt.Errorf("apply: %w", err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				return fmt.Errorf("apply: %w", err)
			}
			found, err := decodeObjects(b)
			if err != nil {
				return fmt.Errorf("apply %s: %w", name, err)
			}
			objects = append(objects, found...)
		}
	}
	return c.applyObjects(ctx, objects)
}

// Apply applies one YAML text, which may hold several documents, as ApplyFiles does.
func (c *Cluster) Apply(ctx context.Context, manifest string) error {
	objects, err := decodeObjects([]byte(manifest))
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	return c.applyObjects(ctx, objects)
}

func manifestFiles(path string) ([]string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) && !e.IsDir() && e.Name() != kustomization {
			out = append(out, filepath.Join(path, e.Name()))
		}
	}
	return out, nil
}

// decodeObjects reads the documents of a YAML text; lists are taken apart.
func decodeObjects(b []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(b), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		switch {
		case len(object.Object) == 0: // an empty document
		case object.IsList():
			list, err := object.ToList()
			if err != nil {
				return nil, err
			}
			for i := range list.Items {
				out = append(out, &list.Items[i])
			}
		default:
			out = append(out, object)
		}
	}
}

func (c *Cluster) applyObjects(ctx context.Context, objects []*unstructured.Unstructured) error {
	client, err := NewClient(c.Config())
	if err != nil {
		return err
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return cmp.Compare(rank(a), rank(b)) })
	for i, object := range objects {
		if i > 0 && rank(objects[i-1]) < len(applyFirst) && rank(object) == len(applyFirst) {
			if err := waitEstablished(ctx, client, objects[:i]); err != nil {
				return err
			}
		}
		if err := applyObject(ctx, client, object); err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return waitEstablished(ctx, client, objects)
}

func rank(object *unstructured.Unstructured) int {
	if i := slices.Index(applyFirst, object.GetKind()); i >= 0 {
		return i
	}
	return len(applyFirst)
}

func applyObject(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	gvk := object.GroupVersionKind()
	if err := waitKnown(ctx, c, gvk.GroupKind(), gvk.Version); err != nil {
		return err
	}
	namespaced, err := c.IsObjectNamespaced(object)
	if err != nil {
		return err
	}
	if namespaced && object.GetNamespace() == "" {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(fieldManager), client.ForceOwnership)
}

// waitKnown waits until discovery names a kind, in one of the versions if there are any: it may lag a little behind a CRD
// that is established.
func waitKnown(ctx context.Context, c client.Client, kind schema.GroupKind, versions ...string) error {
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		_, err := c.RESTMapper().RESTMapping(kind, versions...)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		return err == nil, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("the cluster does not know %s", strings.Join(append([]string{kind.String()}, versions...), " "))
	}
	return err
}

// waitEstablished waits until the API server serves the CRDs among the objects, and names their kinds in its discovery,
// which lags a little behind.
func waitEstablished(ctx context.Context, c client.Client, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		name := object.GetName()
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			crd := object.DeepCopy()
			err := c.Get(ctx, client.ObjectKeyFromObject(crd), crd)
			return err == nil && hasCondition(crd, "Established"), err
		})
		if err != nil {
			return fmt.Errorf("wait for CRD %s to be established: %w", name, err)
		}
		if err := waitKnown(ctx, c, kindOf(object)); err != nil {
			return err
		}
	}
	return nil
}

// kindOf returns the kind that a CRD defines.
func kindOf(crd *unstructured.Unstructured) schema.GroupKind {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	return schema.GroupKind{Group: group, Kind: kind}
}

func hasCondition(object *unstructured.Unstructured, condition string) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(entry any) bool {
		m, ok := entry.(map[string]any)
		return ok && m["type"] == condition && m["status"] == "True"
	})
}
