// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/apis/v1alpha1"
)

// MinScaleAnnotation is how many replicas Knative keeps at least.
const MinScaleAnnotation = "autoscaling.knative.dev/minScale"

// Enforces reports whether the replicas of a record follow the measurements.
func Enforces(spec *v1alpha1.DeploymentRecordSpec, s Settings) bool {
	e := spec.Enforcement
	return s.Enforce && e != nil && e.Mode == v1alpha1.EnforcementEnforce &&
		(len(e.Dimensions) == 0 || slices.Contains(e.Dimensions, v1alpha1.DimensionReplicas))
}

// scaling returns a HorizontalPodAutoscaler for each Deployment of a function, and the fields that set the replicas, if the
// replicas of a record follow the measurements.
func scaling(
	spec *v1alpha1.DeploymentRecordSpec, objects []object, s Settings,
) (scalers []*unstructured.Unstructured, unassigned map[string][]string) {
	if !Enforces(spec, s) {
		return nil, nil
	}
	unassigned = map[string][]string{}
	for _, o := range objects {
		if o.function == nil || o.GetName() != o.function.Name {
			continue
		}
		switch {
		case o.GetKind() == "Deployment":
			unassigned[keyOf(o.Unstructured)] = []string{"spec", "replicas"}
			if s.HPA && !has(objects, "HorizontalPodAutoscaler", o.GetName()) {
				hpa := scaler(o, s)
				scalers = append(scalers, hpa)
				unassigned[keyOf(hpa)] = []string{"spec", "minReplicas"}
			}
		case o.GroupVersionKind().Group == "serving.knative.dev":
			unassigned[keyOf(o.Unstructured)] = []string{"spec", "template", "metadata", "annotations", MinScaleAnnotation}
		}
	}
	return scalers, unassigned
}

func keyOf(o *unstructured.Unstructured) string { return o.GetKind() + "/" + o.GetName() }

func scaler(target object, s Settings) *unstructured.Unstructured {
	f, most := target.function, s.MaxReplicas
	if f.Spec.MaxScale != nil && *f.Spec.MaxScale > 0 {
		most = *f.Spec.MaxScale
	}
	least := max(1, f.Replicas)
	o := newObject("HorizontalPodAutoscaler", target.GetNamespace(), f.Name, target.GetLabels(), map[string]any{
		"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": f.Name},
		"minReplicas":    int64(least),
		"maxReplicas":    int64(max(least, most)),
		"metrics": []any{map[string]any{"type": "Resource", "resource": map[string]any{
			"name": "cpu", "target": map[string]any{"type": "Utilization", "averageUtilization": f.Utilization},
		}}},
	})
	o.SetAPIVersion("autoscaling/v2")
	return o
}
