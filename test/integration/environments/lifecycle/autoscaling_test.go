// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
)

// The autoscaler of a component is the HorizontalPodAutoscaler of Kubernetes, and Berth leaves the replicas to it, with the mix at
// every number. No metrics are served here, without which the real one enforces its bounds only: the rest is scaled as it does.
func TestAutoscalingKeepsTheMix(t *testing.T) {
	s := share(t)
	e := environment("shop")
	b := e.Spec.Stack.Backend
	e.Spec.Stack = v1alpha1.ApplicationStack{Backend: b}
	b.Container.Resources = &v1alpha1.EnvironmentResources{CPU: "100m"}
	b.Autoscaling = &v1alpha1.EnvironmentAutoscaling{MaxReplicas: 6}
	e = s.runs(e)
	deployment := func() *appsv1.Deployment { return in(s, e, "backend", &appsv1.Deployment{}) }
	require.EqualValues(t, 1, *deployment().Spec.Replicas)

	s.change("shop", func(e *v1alpha1.Environment) { e.Spec.Stack.Backend.Autoscaling.MinReplicas = new(int32(3)) })
	s.seen("shop", "three replicas by the autoscaler", func(e *v1alpha1.Environment) bool { return s.backend(e).ReadyReplicas == 3 })
	assert.Equal(t, []string{"kube-controller-manager"}, managers(deployment(), `"f:replicas"`), "Berth would apply what it has read, however old that is")
	autoscaler := in(s, e, "backend", &autoscalingv2.HorizontalPodAutoscaler{})
	assert.EqualValues(t, 6, autoscaler.Spec.MaxReplicas)
	e = s.until("shop", "a condition about metrics", func(e *v1alpha1.Environment) bool {
		return condition(e, v1alpha1.ConditionAutoscalingActive).Status == metav1.ConditionFalse
	})
	assert.Contains(t, condition(e, v1alpha1.ConditionAutoscalingActive).Message, "backend: ")

	// As the autoscaler does it with metrics.
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Status.Namespace, Name: "backend"}, Spec: autoscalingv1.ScaleSpec{Replicas: 6},
	}
	_, err := s.Kube.AppsV1().Deployments(e.Status.Namespace).UpdateScale(s.Ctx, "backend", scale, metav1.UpdateOptions{})
	require.NoError(t, err)
	s.change("shop", func(e *v1alpha1.Environment) {
		e.Spec.Stack.Backend.Container.Env = map[string]v1alpha1.ConfigValue{"LOG": "debug"}
	})
	e = s.seen("shop", "six replicas of the new revision", func(e *v1alpha1.Environment) bool {
		return s.backend(e).Ready && s.backend(e).Replicas == 6 && e.Status.Phase == v1alpha1.EnvironmentRunning
	})
	require.EqualValues(t, 6, *deployment().Spec.Replicas, "a change of the spec leaves the replicas to the autoscaler")
	s.Eventually("half of the replicas are on spot", func() (bool, string) {
		types := map[string]int{}
		pods := s.pods(e, "backend")
		for i := range pods {
			types[s.runsOn(&pods[i])]++
		}
		return types["spot"] == 3 && types["on-demand"] == 3, fmt.Sprint(types)
	})

	s.change("shop", func(e *v1alpha1.Environment) { e.Spec.RunPolicy = v1alpha1.RunPolicyStopped })
	s.comes("shop", v1alpha1.EnvironmentStopped)
	require.Zero(t, *deployment().Spec.Replicas)
	s.change("shop", func(e *v1alpha1.Environment) { e.Spec.RunPolicy = v1alpha1.RunPolicyRunning })
	s.comes("shop", v1alpha1.EnvironmentRunning)
	require.EqualValues(t, 3, *deployment().Spec.Replicas, "at the start the least")

	// Without autoscaling, the replicas are those of the spec.
	s.change("shop", func(e *v1alpha1.Environment) {
		e.Spec.Stack.Backend.Autoscaling, e.Spec.Stack.Backend.Replicas = nil, ptr.To[int32](2)
	})
	e = s.seen("shop", "two replicas", func(e *v1alpha1.Environment) bool { return s.backend(e).Ready && s.backend(e).Replicas == 2 })
	require.EqualValues(t, 2, *deployment().Spec.Replicas)
	assert.Empty(t, s.names(e, &autoscalingv2.HorizontalPodAutoscalerList{}))
	assert.Empty(t, condition(e, v1alpha1.ConditionAutoscalingActive))
}

// backend is the status of the backend.
func (s *scene) backend(e *v1alpha1.Environment) v1alpha1.EnvironmentComponentStatus {
	s.T.Helper()
	for _, c := range e.Status.Components {
		if c.Name == "backend" {
			return c
		}
	}
	return v1alpha1.EnvironmentComponentStatus{}
}

// managers are the managers of a field of an object, but for those of its status.
func managers(o metav1.Object, field string) (names []string) {
	for _, f := range o.GetManagedFields() {
		if f.Subresource != "status" && f.FieldsV1 != nil && strings.Contains(f.FieldsV1.GetRawString(), field) {
			names = append(names, f.Manager)
		}
	}
	return names
}
