// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/stack"
)

// defaultCPUPercent is the CPU usage that autoscalers aim at if no target is set.
const defaultCPUPercent = 80

// Components returns the components of the environment. A component with autoscaling has the replicas that Scaled has, at the
// start those of the spec within the bounds of the autoscaler.
func (in *Input) Components() []stack.Component {
	list := stack.Components(&in.Environment.Spec.Stack)
	for i := range list {
		c := &list[i]
		switch n := in.Scaled[c.Name]; {
		case c.Autoscaling == nil:
		case n > 0:
			c.Replicas = n
		default:
			c.Replicas = min(max(c.Replicas, ptr.Deref(c.Autoscaling.MinReplicas, 1)), c.Autoscaling.MaxReplicas)
		}
	}
	return list
}

// Autoscaled reports whether an autoscaler sets the replicas of a component: not before it is started, and not once it is stopped,
// because autoscalers leave workloads without replicas alone.
func (in *Input) Autoscaled(c *stack.Component) bool {
	return c.Autoscaling != nil && in.Scaled[c.Name] > 0 && in.runs(c)
}

// autoscaler is the HorizontalPodAutoscaler of a component.
func (in *Input) autoscaler(c *stack.Component) []runtime.Object {
	a := c.Autoscaling
	if a == nil {
		return nil
	}
	cpu := a.TargetCPUPercent
	if cpu == nil && a.TargetMemoryPercent == nil {
		cpu = new(int32(defaultCPUPercent))
	}
	out := &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: in.meta(c.Name, c.Name),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: "apps/v1", Kind: string(stack.OfDeployment), Name: c.Name,
			},
			MinReplicas: new(ptr.Deref(a.MinReplicas, 1)), MaxReplicas: a.MaxReplicas,
		},
	}
	for _, target := range []struct {
		resource corev1.ResourceName
		percent  *int32
	}{{corev1.ResourceCPU, cpu}, {corev1.ResourceMemory, a.TargetMemoryPercent}} {
		if target.percent != nil {
			out.Spec.Metrics = append(out.Spec.Metrics, autoscalingv2.MetricSpec{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name: target.resource,
					Target: autoscalingv2.MetricTarget{
						Type: autoscalingv2.UtilizationMetricType, AverageUtilization: target.percent,
					},
				},
			})
		}
	}
	return []runtime.Object{out}
}

// AutoscalingActive reports whether the autoscalers of an environment can compute replicas, a reason in one word, and a message that
// names those which cannot.
func AutoscalingActive(autoscalers []*autoscalingv2.HorizontalPodAutoscaler) (active bool, reason, message string) {
	var problems []string
	reason = v1alpha1.ReasonConfigured
	for _, a := range autoscalers {
		for i := range a.Status.Conditions {
			c := &a.Status.Conditions[i]
			// ScalingDisabled is that of a component without replicas, which is stopped.
			if c.Type == autoscalingv2.ScalingActive && c.Status == corev1.ConditionFalse && c.Reason != "ScalingDisabled" {
				problems, reason = append(problems, a.Name+": "+c.Message), c.Reason
			}
		}
	}
	if len(problems) > 0 {
		return false, reason, strings.Join(problems, "; ")
	}
	return true, reason, "the replicas of components with autoscaling follow their usage"
}
