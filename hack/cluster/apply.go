// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
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

// ApplyFiles applies YAML files by server-side apply; a directory stands for the .yaml, .yml and .json files in it, but for its
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
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(c.Config())
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	sort.SliceStable(objects, func(i, j int) bool { return rank(objects[i]) < rank(objects[j]) })
	for i, object := range objects {
		if i > 0 && rank(objects[i-1]) < len(applyFirst) && rank(object) == len(applyFirst) {
			if err := waitEstablished(ctx, client, objects[:i]); err != nil {
				return err
			}
		}
		if err := applyObject(ctx, client, mapper, object); err != nil {
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

func applyObject(ctx context.Context, client dynamic.Interface, mapper *restmapper.DeferredDiscoveryRESTMapper,
	object *unstructured.Unstructured,
) error {
	var mapping *meta.RESTMapping
	gvk := object.GroupVersionKind()
	// Discovery may lag a little behind a CRD that is established.
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		var err error
		mapping, err = mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) {
			mapper.Reset()
			return false, nil
		}
		return err == nil, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("the cluster does not know %s", gvk)
	}
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		resource = client.Resource(mapping.Resource).Namespace(orDefault(object.GetNamespace(), metav1.NamespaceDefault))
	}
	_, err = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// waitEstablished waits until the API server serves the CRDs among the objects.
func waitEstablished(ctx context.Context, client dynamic.Interface, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		name := object.GetName()
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
			crd, err := client.Resource(crdResource).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			return hasCondition(crd, "Established"), nil
		})
		if err != nil {
			return fmt.Errorf("wait for CRD %s to be established: %w", name, err)
		}
	}
	return nil
}

func hasCondition(object *unstructured.Unstructured, condition string) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(entry any) bool {
		m, ok := entry.(map[string]any)
		return ok && m["type"] == condition && m["status"] == "True"
	})
}
