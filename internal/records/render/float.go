// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/apis/v1alpha1"
)

// MinScaleAnnotation is how many replicas Knative keeps at least.
const MinScaleAnnotation = "autoscaling.knative.dev/minScale"

// defaultUtilization is the share of its CPU, in percent, that a replica should
// use where the record does not say.
const defaultUtilization = 70

// floats are the fields that others set once an object is there, by kind.
var floats = map[string][]string{
	"Deployment":              {"spec", "replicas"},
	"HorizontalPodAutoscaler": {"spec", "minReplicas"},
	"Service":                 {"spec", "template", "metadata", "annotations", MinScaleAnnotation}, // Knative's
}

// Enforces reports whether the replicas of a record follow what is measured.
func Enforces(spec *v1alpha1.DeploymentRecordSpec, s Settings) bool {
	e := spec.Enforcement
	return s.Enforce && e != nil && e.Mode == v1alpha1.EnforcementEnforce &&
		(len(e.Dimensions) == 0 || slices.Contains(e.Dimensions, v1alpha1.DimensionReplicas))
}

// float leaves the number of replicas to what is measured where that is
// enforced, and makes a HorizontalPodAutoscaler for each function.
func (r *Rendered) float(record *v1alpha1.DeploymentRecord, s Settings) {
	if !Enforces(&record.Spec, s) {
		return
	}
	r.floating = map[string]bool{}
	var scalers []*unstructured.Unstructured
	for _, o := range r.Objects {
		labels := o.GetLabels()
		f := r.byLabel(labels[v1alpha1.FunctionLabel])
		if f == nil || o.GetName() != f.Name {
			continue
		}
		switch {
		case o.GetKind() == "Deployment":
			r.floating[floatKey(o)] = true
			if s.HPA && !r.has("HorizontalPodAutoscaler", f.Name) {
				scalers = append(scalers, scaler(record, f, labels, s))
			}
		case o.GroupVersionKind().Group == "serving.knative.dev":
			r.floating[floatKey(o)] = true
		}
	}
	for _, o := range scalers {
		r.floating[floatKey(o)] = true
	}
	r.Objects = append(r.Objects, scalers...)
}

func floatKey(o *unstructured.Unstructured) string { return o.GetKind() + "/" + o.GetName() }

func scaler(record *v1alpha1.DeploymentRecord, f *Function, labels map[string]string, s Settings) *unstructured.Unstructured {
	most := s.MaxReplicas
	if f.Spec.MaxScale != nil && *f.Spec.MaxScale > 0 {
		most = *f.Spec.MaxScale
	}
	least := max(1, f.Replicas)
	utilization := int64(defaultUtilization)
	if f.NFR.CPUUtilizationTarget != nil {
		utilization = max(1, int64(100*Number(*f.NFR.CPUUtilizationTarget)+0.5))
	}
	o := object("HorizontalPodAutoscaler", record, f.Name, labels, map[string]any{
		"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": f.Name},
		"minReplicas":    int64(least), "maxReplicas": int64(max(least, most)),
		"metrics": []any{map[string]any{"type": "Resource", "resource": map[string]any{
			"name": "cpu", "target": map[string]any{"type": "Utilization", "averageUtilization": utilization},
		}}},
	})
	o.SetAPIVersion("autoscaling/v2")
	return o
}

// Unassigned returns the field of an object that others set once it is there, nil if there is none.
func (r *Rendered) Unassigned(o *unstructured.Unstructured) []string {
	if r.floating[floatKey(o)] {
		return floats[o.GetKind()]
	}
	return nil
}
