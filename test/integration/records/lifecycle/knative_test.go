// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// serveKnative has the API server serve Knative's API. No one acts on it.
func (s *scene) serveKnative() {
	s.T.Helper()
	on := true
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "services.serving.knative.dev"}}
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "serving.knative.dev", Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "services", Singular: "service", Kind: "Service", ListKind: "ServiceList", ShortNames: []string{"ksvc"}},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true, Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &on}},
		}},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	require.NoError(s.T, err)
	o := &unstructured.Unstructured{Object: content}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	s.CreateForTest(o)
}

// knative is a Knative Service, nil if there is none.
func (s *scene) knative(name string) *unstructured.Unstructured {
	s.T.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "serving.knative.dev", Version: "v1", Kind: "Service"})
	err := s.Client.Get(s.Ctx, types.NamespacedName{Namespace: s.Namespace, Name: name}, o)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	require.NoError(s.T, err)
	return o
}

// knativeAnnotations are those of the revisions of a Knative Service.
func (s *scene) knativeAnnotations(name string) map[string]string {
	s.T.Helper()
	o := s.knative(name)
	if o == nil {
		return nil
	}
	annotations, _, err := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "annotations")
	require.NoError(s.T, err)
	return annotations
}
