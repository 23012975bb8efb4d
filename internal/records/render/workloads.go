// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/apis/v1alpha1"
)

// knativeGroup is the API group of Knative Services.
const knativeGroup = "serving.knative.dev"

// MinScaleAnnotation is how many replicas Knative keeps at least.
const MinScaleAnnotation = "autoscaling.knative.dev/minScale"

// spreadFrom is the lowest availability whose replicas are spread over zones.
const spreadFrom = 0.99

// place sets where the pods of a Deployment run: the scheduler, the limit, the zone, the spread over zones, and the distance to the
// ODGM. What the template sets itself stays.
func place(o *unstructured.Unstructured, src *source, s Settings) {
	podLabels := markPods(o, src)
	pods, ok := podTemplate(o)
	if !ok {
		return
	}
	labels, spec := o.GetLabels(), ensure(pods, "spec")
	setDefault(spec, "schedulerName", s.SchedulerName != "", s.SchedulerName)
	f := src.function
	if f == nil {
		setDefault(spec, "topologySpreadConstraints", src.apart, over(labels, corev1.LabelHostname, corev1.LabelTopologyZone))
		return
	}
	if src.limit != "" {
		podLabels[v1alpha1.ResourceLimitLabel] = src.limit
	}
	if f.Spec.AvailableLocation != "" {
		ensure(spec, "nodeSelector")[corev1.LabelTopologyZone] = f.Spec.AvailableLocation
	}
	setDefault(spec, "affinity", src.nearODGM, nearODGM(labels[v1alpha1.OwnerLabel]))
	setDefault(spec, "topologySpreadConstraints", f.Availability >= spreadFrom, over(labels, corev1.LabelTopologyZone))
}

// markPods gives the pods of a workload its labels, which it returns, and the annotation of HTTP/2.
func markPods(o *unstructured.Unstructured, src *source) map[string]any {
	workload := o.GetKind() == "Deployment" || o.GroupVersionKind().Group == knativeGroup
	spec, _ := o.Object["spec"].(map[string]any)
	pods, is := spec["template"].(map[string]any)
	if !workload || !is {
		return nil
	}
	metadata := ensure(pods, "metadata")
	if f := src.function; f != nil {
		if f.Spec.HTTP2 {
			ensure(metadata, "annotations")[oaasHTTP2Annotation] = "true"
		}
		markScraped(metadata, f.Metrics)
	}
	podLabels := ensure(metadata, "labels")
	for key, value := range src.labels {
		podLabels[key] = value
	}
	return podLabels
}

// markScraped gives pods the annotations by which scrape configurations find their metrics.
func markScraped(metadata map[string]any, m *v1alpha1.FunctionMetrics) {
	if m == nil || m.Port == 0 {
		return
	}
	annotations := ensure(metadata, "annotations")
	for key, value := range map[string]string{
		"scrape": "true", "port": strconv.Itoa(int(m.Port)), "path": cmp.Or(m.Path, "/metrics"),
	} {
		setDefault(annotations, "prometheus.io/"+key, true, value)
	}
}

// podTemplate returns that of a Deployment.
func podTemplate(o *unstructured.Unstructured) (map[string]any, bool) {
	template, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "template")
	pods, is := template.(map[string]any)
	return pods, is && o.GetKind() == "Deployment"
}

// setDefault sets a field if the condition holds and the template does not set it.
func setDefault(m map[string]any, key string, condition bool, value any) {
	if condition && m[key] == nil {
		m[key] = value
	}
}

// selectorOf returns the labels that only the pods of one workload of a record have.
func selectorOf(labels map[string]string) map[string]any {
	m := map[string]any{}
	for _, key := range []string{v1alpha1.OwnerLabel, v1alpha1.ComponentLabel, v1alpha1.FunctionLabel, v1alpha1.AddonLabel} {
		if labels[key] != "" {
			m[key] = labels[key]
		}
	}
	return m
}

// over prefers the nodes, or zones, with few replicas. A hard rule would leave replicas without a node if one is full.
func over(labels map[string]string, topologyKeys ...string) (constraints []any) {
	for _, key := range topologyKeys {
		constraints = append(constraints, map[string]any{
			"maxSkew":           int64(1),
			"topologyKey":       key,
			"whenUnsatisfiable": "ScheduleAnyway",
			"labelSelector":     map[string]any{"matchLabels": selectorOf(labels)},
		})
	}
	return constraints
}

// nearODGM prefers the node of the ODGM, and then its zone.
func nearODGM(owner string) map[string]any {
	pods := map[string]any{"matchLabels": map[string]any{v1alpha1.OwnerLabel: owner, v1alpha1.ComponentLabel: ComponentODGM}}
	near := func(weight int64, key string) any {
		return map[string]any{"weight": weight, "podAffinityTerm": map[string]any{"topologyKey": key, "labelSelector": pods}}
	}
	return map[string]any{"podAffinity": map[string]any{"preferredDuringSchedulingIgnoredDuringExecution": []any{
		near(100, corev1.LabelHostname), near(50, corev1.LabelTopologyZone),
	}}}
}

// ensure returns the map of a key, and creates it if there is none.
func ensure(m map[string]any, key string) map[string]any {
	if have, ok := m[key].(map[string]any); ok {
		return have
	}
	made := map[string]any{}
	m[key] = made
	return made
}

// limitsOf returns a ResourceLimit for the allocation of a record.
func limitsOf(record *v1alpha1.DeploymentRecord, n names) []Object {
	a := record.Spec.ResourceAllocation
	if a == nil {
		return nil
	}
	spec, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(a) // texts, with the names that they have in a ResourceLimit
	labels := map[string]string{v1alpha1.OwnerLabel: n.label}
	return []Object{newObject("ResourceLimit", record.Namespace, n.limit, labels, spec)}
}

// mixesOf returns a CapacityMix for the ODGM and for each add-on, which keep data and stay on on-demand capacity, and for each
// Deployment of functions that require an availability. An add-on that has a mix of its own gets no other.
func mixesOf(objects []Object) (mixes []Object) {
	governed := map[string]bool{} // add-ons, "" for the ODGM: one mix selects the pods of all Deployments
	for _, o := range objects {
		if key := o.GetLabels()[v1alpha1.AddonLabel]; key != "" && o.GetKind() == "CapacityMix" {
			governed[key] = true
		}
	}
	for _, o := range objects {
		split, key := &Split{SpotPercent: 0, MinOnDemand: 1}, o.GetLabels()[v1alpha1.AddonLabel]
		if o.function != nil {
			split = o.function.Split
		}
		if _, is := podTemplate(o.Unstructured); !is || split == nil || o.function == nil && governed[key] {
			continue
		}
		if o.function == nil {
			governed[key] = true
		}
		labels := o.GetLabels()
		mixes = append(mixes, newObject("CapacityMix", o.GetNamespace(), o.GetName(), labels, map[string]any{
			"selector":            map[string]any{"matchLabels": selectorOf(labels)},
			"spotPercent":         int64(split.SpotPercent),
			"minOnDemand":         int64(split.MinOnDemand),
			"whenSpotUnavailable": "OnDemand",
		}))
	}
	return mixes
}

// Enforces reports whether the replicas of a record follow the measurements.
func Enforces(spec *v1alpha1.DeploymentRecordSpec, s Settings) bool {
	e := spec.Enforcement
	return s.Enforce && e != nil && e.Mode == v1alpha1.EnforcementEnforce &&
		(len(e.Dimensions) == 0 || slices.Contains(e.Dimensions, v1alpha1.DimensionReplicas))
}

// scaled returns objects as they are, unless the replicas of the record follow the measurements: then the fields that set them are
// unassigned, and a HorizontalPodAutoscaler for each Deployment of a function follows.
func scaled(spec *v1alpha1.DeploymentRecordSpec, objects []Object, s Settings) []Object {
	if !Enforces(spec, s) {
		return objects
	}
	objects = slices.Clone(objects)
	var scalers []Object
	for i := range objects {
		o := &objects[i]
		switch {
		case o.function == nil || o.GetName() != o.function.Name:
		case o.GetKind() == "Deployment":
			o.Unassigned = []string{"spec", "replicas"}
			if s.HPA && !has(objects, "HorizontalPodAutoscaler", o.GetName()) {
				scalers = append(scalers, scaler(o, s.MaxReplicas))
			}
		case o.GroupVersionKind().Group == knativeGroup:
			o.Unassigned = []string{"spec", "template", "metadata", "annotations", MinScaleAnnotation}
		}
	}
	return append(objects, scalers...)
}

// scaler returns the HorizontalPodAutoscaler of a function, which goes up to most if the function has no bound.
func scaler(target *Object, most int32) Object {
	f := target.function
	least := max(1, f.Replicas)
	o := newObject("HorizontalPodAutoscaler", target.GetNamespace(), f.Name, target.GetLabels(), map[string]any{
		"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": f.Name},
		"minReplicas":    int64(least),
		"maxReplicas":    int64(max(least, cmp.Or(f.MaxReplicas, most))),
		"metrics": []any{map[string]any{"type": "Resource", "resource": map[string]any{
			"name": "cpu", "target": map[string]any{"type": "Utilization", "averageUtilization": f.Utilization},
		}}},
	})
	o.SetAPIVersion("autoscaling/v2")
	o.Unassigned = []string{"spec", "minReplicas"}
	return o
}

func newObject(kind, namespace, name string, labels map[string]string, spec map[string]any) Object {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(kind))
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(maps.Clone(labels))
	return Object{Unstructured: o}
}
