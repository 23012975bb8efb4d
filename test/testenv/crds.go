// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"fmt"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/apis/v1alpha1"
)

// RemoveCRD removes the CustomResourceDefinition of a resource of Berth, by its
// plural, and waits until no one serves it. It does not come back by itself.
func (w *World) RemoveCRD(resource string) {
	w.T.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	crd.SetName(v1alpha1.Resource(resource).String())
	require.NoError(w.T, w.Client.Delete(w.Ctx, crd))
	w.Eventually("nobody serves the resource", func() (bool, string) {
		err := w.Kube.CoreV1().RESTClient().Get().AbsPath("/apis", v1alpha1.GroupName, v1alpha1.SchemeGroupVersion.Version,
			resource).Do(w.Ctx).Error()
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}
