// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/testenv"
)

func enforced(name string, functions ...string) *v1alpha1.DeploymentRecord {
	r := record(name, functions...)
	r.Spec.Enforcement = &v1alpha1.NFREnforcement{Mode: v1alpha1.EnforcementEnforce}
	return r
}

// no one is where no Prometheus is.
func nobody(d *controller.Records) {
	d.Prometheus.URL, d.NFR.IntervalSeconds = "http://127.0.0.1:1", 5
}

func withoutHPA(d *controller.Records) { d.Features.HPA = new(false) }

// What was set by measure, or by hand, is not undone by the next change of the record.
func TestEnforcedReplicasSurviveAChange(t *testing.T) {
	s := share(t)
	s.create(enforced("cart", "add"))
	testenv.Patch(s.World, s.deployment("cart"), func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(4)) })
	for i := range 2 {
		image := fmt.Sprint("registry.example/function:", i+2)
		s.change("cart", func(r *v1alpha1.DeploymentRecord) { r.Spec.DeploymentUnit.Functions[0].Image = image })
		testenv.Becomes(s.World, "the change is there", image, func() string { return s.image("cart") })
		assert.Equal(t, int32(4), *s.deployment("cart").Spec.Replicas)
	}
	// Where it is not enforced any more, the record says how many there are.
	s.change("cart", func(r *v1alpha1.DeploymentRecord) { r.Spec.Enforcement.Mode = v1alpha1.EnforcementObserve })
	testenv.Becomes(s.World, "the record's replicas are back", int32(1), func() int32 { return *s.deployment("cart").Spec.Replicas })
}

func TestAnEnforcedFunctionHasAnAutoscaler(t *testing.T) {
	s := start(t, nobody)
	r := enforced("cart", "add")
	r.Spec.DeploymentUnit.Functions[0].MinScale, r.Spec.DeploymentUnit.Functions[0].MaxScale = new(int32(2)), new(int32(8))
	r.Spec.NFRRequirements = &v1alpha1.NFRRequirements{CPUUtilizationTarget: new("0.6")}
	s.create(r)
	hpa := func() *autoscalingv2.HorizontalPodAutoscaler {
		return testenv.Read(s.World, "cart", &autoscalingv2.HorizontalPodAutoscaler{})
	}
	h := hpa()
	assert.Equal(t, []int32{2, 8, 60}, []int32{*h.Spec.MinReplicas, h.Spec.MaxReplicas, *h.Spec.Metrics[0].Resource.Target.AverageUtilization})
	assert.Equal(t, "cart", h.Spec.ScaleTargetRef.Name)
	testenv.Patch(s.World, h, func(h *autoscalingv2.HorizontalPodAutoscaler) { h.Spec.MinReplicas = new(int32(5)) })
	s.change("cart", func(r *v1alpha1.DeploymentRecord) { r.Spec.DeploymentUnit.Functions[0].MaxScale = new(int32(9)) })
	s.Eventually("the bound is there", func() (bool, string) { return hpa().Spec.MaxReplicas == 9, fmt.Sprint(hpa().Spec) })
	assert.Equal(t, int32(5), *hpa().Spec.MinReplicas)
}

// A Prometheus that is not there changes nothing but a condition.
func TestWithoutPrometheusNothingHappens(t *testing.T) {
	s := share(t)
	s.create(enforced("cart", "add"))
	r := testenv.WaitFor(s.World, "cart", "it reports it", func(r *v1alpha1.DeploymentRecord) bool {
		c := condition(r, v1alpha1.ConditionNFRObserved)
		return c.Status == metav1.ConditionFalse && c.Reason == "PrometheusUnreachable"
	})
	assert.Empty(t, r.Status.NFRRecommendations)
	assert.Equal(t, v1alpha1.PhaseAvailable, r.Status.Phase)
	assert.Equal(t, int32(1), *s.deployment("cart").Spec.Replicas)
}
