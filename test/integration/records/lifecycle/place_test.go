// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/internal/records/render"
)

// The availability that is requested is a mix that the scheduler keeps.
func TestPodsOfARecordArePlacedByItsAvailability(t *testing.T) {
	s := share(t)
	r := record("cart", "add")
	r.Spec.NFRRequirements = &v1alpha1.NFRRequirements{Availability: new("0.999")}
	r.Spec.DeploymentUnit.Functions[0].MinScale = new(int32(10))
	r.Spec.ResourceAllocation = &v1alpha1.ResourceAllocation{CPU: "100m", Memory: "64Mi"}
	s.Create(r)
	s.settled("cart", v1alpha1.PhaseAvailable)
	want := render.SplitFor(0.999, render.DefaultReliability)
	cm := s.Mix("cart")
	require.Equal(t, []int32{want.SpotPercent, want.MinOnDemand}, []int32{cm.Spec.SpotPercent, cm.Spec.MinOnDemand})
	pods, err := s.Kube.CoreV1().Pods(s.Namespace).List(s.Ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, pods.Items, 10)
	s.RequireExactPods(pods.Items, split.New(want.SpotPercent, want.MinOnDemand))
	for i := range pods.Items {
		assert.Equal(t, "cart", pods.Items[i].Labels[v1alpha1.ResourceLimitLabel])
		assert.Len(t, pods.Items[i].Spec.TopologySpreadConstraints, 1)
	}
	limit := &v1alpha1.ResourceLimit{}
	require.NoError(t, s.Client.Get(s.Ctx, types.NamespacedName{Namespace: s.Namespace, Name: "cart"}, limit))
	assert.Equal(t, "100m", limit.Spec.CPU.String())
}

// Knative comes while the controller runs: what it can render better is rendered again.
func TestKnativeAppearsAtRunTime(t *testing.T) {
	s := start(t, func(d *controller.Records) { d.Features.Knative = new(true) })
	r := record("cart", "add")
	r.Spec.DeploymentUnit.Functions[0].MinScale = new(int32(2))
	r.Spec.DeploymentUnit.Functions[0].MaxScale = new(int32(5))
	s.Create(r)
	r = s.settled("cart", v1alpha1.PhaseAvailable)
	require.Equal(t, "edge", r.Status.Template)

	s.serveKnative()
	var service *unstructured.Unstructured
	s.Eventually("there is a Knative Service, and no Deployment", func() (bool, string) {
		service = s.knative("cart")
		return service != nil && len(s.deployments()) == 0, fmt.Sprint(s.deployments())
	})
	annotations := s.knativeAnnotations("cart")
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
