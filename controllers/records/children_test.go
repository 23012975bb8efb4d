// SPDX-License-Identifier: Apache-2.0

package records

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/applyset"
	"berth.dev/berth/internal/records/render"
)

// A kind that can be rendered and is not watched would never be deleted.
func TestEveryKindThatCanBeRenderedIsWatched(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	found := []schema.GroupKind{knativeService.GroupKind()}
	for _, o := range watched() {
		kind, err := apiutil.GVKForObject(o, scheme)
		require.NoError(t, err)
		found = append(found, kind.GroupKind())
	}
	require.ElementsMatch(t, render.Kinds, found)
}

func TestWhatWasRenderedIsHashed(t *testing.T) {
	of := func(replicas, port int64, path ...string) string {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": replicas, "port": port}}}
		applyset.Prepare(o, nil, path)
		n, _, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
		require.NoError(t, err)
		require.Equal(t, replicas, n, "the object itself keeps its field")
		return o.GetAnnotations()[v1alpha1.RenderedAnnotation]
	}
	require.Equal(t, of(1, 80), of(1, 80))
	require.NotEqual(t, of(1, 80), of(2, 80))
	require.Equal(t, of(1, 80, "spec", "replicas"), of(2, 80, "spec", "replicas"), "others set it")
	require.NotEqual(t, of(1, 80, "spec", "replicas"), of(1, 81, "spec", "replicas"))
	require.NotEqual(t, of(1, 80, "spec", "replicas"), of(1, 80), "others set it no more")
}
