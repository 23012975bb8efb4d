// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

func autoscaled(a *v1alpha1.EnvironmentAutoscaling) func(*v1alpha1.EnvironmentSpec) {
	return func(s *v1alpha1.EnvironmentSpec) { s.Stack.Backend.Autoscaling = a }
}

func TestAutoscalers(t *testing.T) {
	objects := Render(input(t))
	assert.Empty(t, of[*autoscalingv2.HorizontalPodAutoscaler](objects))

	type targets = map[corev1.ResourceName]int32
	for _, c := range []struct {
		from        v1alpha1.EnvironmentAutoscaling
		least, most int32
		targets     targets
	}{
		{v1alpha1.EnvironmentAutoscaling{MaxReplicas: 5}, 1, 5, targets{"cpu": 80}},
		{v1alpha1.EnvironmentAutoscaling{MinReplicas: new(int32(2)), MaxReplicas: 5, TargetCPUPercent: new(int32(50))}, 2, 5, targets{"cpu": 50}},
		{v1alpha1.EnvironmentAutoscaling{MaxReplicas: 5, TargetMemoryPercent: new(int32(70))}, 1, 5, targets{"memory": 70}},
		{
			v1alpha1.EnvironmentAutoscaling{MaxReplicas: 5, TargetCPUPercent: new(int32(50)), TargetMemoryPercent: new(int32(70))},
			1, 5,
			targets{"cpu": 50, "memory": 70},
		},
	} {
		objects := Render(input(t, specOf(autoscaled(&c.from))))
		require.Len(t, of[*autoscalingv2.HorizontalPodAutoscaler](objects), 1)
		a := one[*autoscalingv2.HorizontalPodAutoscaler](t, objects, stack.Backend).Spec
		assert.Equal(t, autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: stack.Backend}, a.ScaleTargetRef)
		assert.Equal(t, []int32{c.least, c.most}, []int32{*a.MinReplicas, a.MaxReplicas})
		got := targets{}
		for _, m := range a.Metrics {
			got[m.Resource.Name] = *m.Resource.Target.AverageUtilization
		}
		assert.Equal(t, c.targets, got)
		assert.NotEmpty(t, of[*policyv1.PodDisruptionBudget](objects), "it may have more than one replica")
	}
}

// The replicas at the start are those of the spec within the bounds of the autoscaler, and from then on those that exist.
func TestReplicasOfAnAutoscaledComponent(t *testing.T) {
	a := &v1alpha1.EnvironmentAutoscaling{MinReplicas: new(int32(2)), MaxReplicas: 5}
	for _, c := range []struct {
		what         string
		spec         *int32
		exist        int32
		run          v1alpha1.RunPolicy
		want         int32
		byAutoscaler bool
	}{
		{"no number in the spec", nil, 0, "", 2, false},
		{"below the bounds", new(int32(1)), 0, "", 2, false},
		{"within them", new(int32(3)), 0, "", 3, false},
		{"above them", new(int32(9)), 0, "", 5, false},
		{"scaled", new(int32(3)), 4, "", 4, true},
		{"stopped", new(int32(3)), 4, v1alpha1.RunPolicyStopped, 0, false},
	} {
		in := input(t, specOf(autoscaled(a)), specOf(func(s *v1alpha1.EnvironmentSpec) {
			s.Stack.Backend.Replicas, s.RunPolicy = c.spec, c.run
		}), func(in *Input) {
			in.Scaled = map[string]int32{stack.Backend: c.exist, stack.Frontend: 7}
			if c.run == v1alpha1.RunPolicyStopped {
				in.OpenStages = 0
			}
		})
		assert.Equal(t, c.want, *one[*appsv1.Deployment](t, Render(in), stack.Backend).Spec.Replicas, c.what)
		if c.run != v1alpha1.RunPolicyStopped {
			assert.EqualValues(t, 1, *one[*appsv1.Deployment](t, Render(in), stack.Frontend).Spec.Replicas, "%s: without autoscaling as specified", c.what)
		}
		components := in.Components()
		assert.Equal(t, c.byAutoscaler, in.Autoscaled(stack.Find(components, stack.Backend)), c.what)
		assert.False(t, in.Autoscaled(stack.Find(components, stack.Frontend)), c.what)
	}
}

func TestAutoscalingActive(t *testing.T) {
	with := func(name, reason string, status corev1.ConditionStatus) *autoscalingv2.HorizontalPodAutoscaler {
		a := &autoscalingv2.HorizontalPodAutoscaler{}
		a.Name = name
		a.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{
			{Type: autoscalingv2.AbleToScale, Status: corev1.ConditionFalse},
			{Type: autoscalingv2.ScalingActive, Status: status, Reason: reason, Message: "no metrics"},
		}
		return a
	}
	healthy, stopped := with("backend", "ValidMetricFound", corev1.ConditionTrue), with("worker", "ScalingDisabled", corev1.ConditionFalse)
	active, reason, _ := AutoscalingActive([]*autoscalingv2.HorizontalPodAutoscaler{healthy, stopped})
	assert.True(t, active)
	assert.Equal(t, v1alpha1.ReasonConfigured, reason)
	active, reason, message := AutoscalingActive([]*autoscalingv2.HorizontalPodAutoscaler{
		healthy, with("frontend", "FailedGetResourceMetric", corev1.ConditionFalse),
	})
	assert.False(t, active)
	assert.Equal(t, "FailedGetResourceMetric", reason)
	assert.Equal(t, "frontend: no metrics", message)
}
