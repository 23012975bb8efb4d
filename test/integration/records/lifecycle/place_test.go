// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/internal/records/render"
	"berth.dev/berth/test/testenv"
)

// The availability that is requested is a mix that the scheduler keeps.
func TestPodsOfARecordArePlacedByItsAvailability(t *testing.T) {
	s := share(t)
	r := record("cart", "add")
	r.Spec.NFRRequirements = &v1alpha1.NFRRequirements{Availability: new("0.999")}
	r.Spec.DeploymentUnit.Functions[0].MinScale = new(int32(10))
	r.Spec.ResourceAllocation = &v1alpha1.ResourceAllocation{CPU: "100m", Memory: "64Mi"}
	s.create(r)
	want := render.SplitFor(0.999, render.DefaultReliability)
	cm := s.Mix("cart")
	require.Equal(t, []int32{want.SpotPercent, want.MinOnDemand}, []int32{cm.Spec.SpotPercent, cm.Spec.MinOnDemand})
	pods := s.Pods()
	require.Len(t, pods, 10)
	s.RequireExactPods(pods, split.New(want.SpotPercent, want.MinOnDemand))
	for _, p := range pods {
		assert.Equal(t, "cart", p.Labels[v1alpha1.ResourceLimitLabel])
		assert.Len(t, p.Spec.TopologySpreadConstraints, 1)
	}
	assert.Equal(t, "100m", testenv.Read(s.World, "cart", &v1alpha1.ResourceLimit{}).Spec.CPU.String())
}

// Knative comes while the controller runs: what it can render better is rendered again.
func TestKnativeAppearsAtRunTime(t *testing.T) {
	s := start(t, func(d *controller.Records) { d.Features.Knative = new(true) })
	r := record("cart", "add")
	r.Spec.DeploymentUnit.Functions[0].MinScale = new(int32(2))
	r.Spec.DeploymentUnit.Functions[0].MaxScale = new(int32(5))
	r = s.create(r)
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
	s.delete("cart")
}
