// SPDX-License-Identifier: Apache-2.0

package records_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/deployment"
	"berth.dev/berth/internal/mix"
)

// The availability that is asked for is a mix that the scheduler keeps.
func TestPodsOfARecordArePlacedByItsAvailability(t *testing.T) {
	s := start(t)
	r := record("cart", "add")
	r.Spec.NFRRequirements = &v1alpha1.NFRRequirements{Availability: new("0.999")}
	r.Spec.DeploymentUnit.Functions[0].MinScale = new(int32(10))
	r.Spec.ResourceAllocation = &v1alpha1.ResourceAllocation{CPU: "100m", Memory: "64Mi"}
	s.Create(r)
	s.settled("cart", v1alpha1.PhaseAvailable)
	want := deployment.SplitFor(0.999, deployment.DefaultReliability)
	cm := s.Mix("cart")
	require.Equal(t, []int32{want.SpotPercent, want.MinOnDemand}, []int32{cm.Spec.SpotPercent, cm.Spec.MinOnDemand})
	pods, err := s.Kube.CoreV1().Pods(s.Namespace).List(s.Ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, pods.Items, 10)
	s.RequireExactPods(pods.Items, mix.New(want.SpotPercent, want.MinOnDemand))
	for i := range pods.Items {
		assert.Equal(t, "cart", pods.Items[i].Labels[v1alpha1.ResourceLimitLabel])
		assert.Len(t, pods.Items[i].Spec.TopologySpreadConstraints, 1)
	}
	limit := &v1alpha1.ResourceLimit{}
	require.NoError(t, s.Client.Get(s.Ctx, types.NamespacedName{Namespace: s.Namespace, Name: "cart"}, limit))
	assert.Equal(t, "100m", limit.Spec.CPU.String())
}

// Knative comes while the controller runs: what it can render better is rendered anew.
func TestKnativeAppearsAtRunTime(t *testing.T) { // CR-20
	on := true
	s := start(t, func(d *controller.Deployments) { d.Features.Knative = &on })
	r := record("cart", "add")
	r.Spec.DeploymentUnit.Functions[0].MinScale = new(int32(2))
	r.Spec.DeploymentUnit.Functions[0].MaxScale = new(int32(5))
	s.Create(r)
	r = s.settled("cart", v1alpha1.PhaseAvailable)
	require.Equal(t, "edge", r.Status.Template)

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
	require.NoError(t, err)
	o := &unstructured.Unstructured{Object: content}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	require.NoError(t, s.Client.Create(s.Ctx, o))
	t.Cleanup(func() { s.Delete(o) })

	service := &unstructured.Unstructured{}
	service.SetGroupVersionKind(schema.GroupVersionKind{Group: "serving.knative.dev", Version: "v1", Kind: "Service"})
	s.Eventually("there is a Knative Service, and no Deployment", func() (bool, string) {
		err := s.Client.Get(s.Ctx, types.NamespacedName{Namespace: s.Namespace, Name: "cart"}, service)
		return err == nil && len(s.deployments()) == 0, fmt.Sprint(err, s.deployments())
	})
	annotations, _, _ := unstructured.NestedStringMap(service.Object, "spec", "template", "metadata", "annotations")
	assert.Equal(t, []string{"2", "5"}, []string{annotations["autoscaling.knative.dev/minScale"], annotations["autoscaling.knative.dev/maxScale"]})
	assert.Equal(t, "cluster-local", service.GetLabels()["networking.knative.dev/visibility"])
	r = s.settled("cart", v1alpha1.PhaseProgressing)
	assert.Equal(t, "knative", r.Status.Template)

	require.NoError(t, unstructured.SetNestedSlice(service.Object, []any{map[string]any{"type": "Ready", "status": string(corev1.ConditionTrue)}}, "status", "conditions"))
	require.NoError(t, s.Client.Status().Update(s.Ctx, service))
	s.settled("cart", v1alpha1.PhaseAvailable)
	s.Delete(s.get("cart"))
	s.gone("cart")
}
