// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/apis/v1alpha1"
)

// spreadFrom is the lowest availability whose replicas are spread over zones.
const spreadFrom = 0.99

// place sets where the pods of a Deployment run: the scheduler, the limit, the zone, the spread over zones, and the distance to the
// ODGM. What the template sets itself stays.
func place(o *unstructured.Unstructured, src *source, s Settings) {
	pods, ok := podTemplate(o)
	if !ok {
		return
	}
	labels := o.GetLabels()
	podLabels, spec := ensure(ensure(pods, "metadata"), "labels"), ensure(pods, "spec")
	maps.Copy(podLabels, selectorOf(labels))
	setDefault(spec, "schedulerName", s.SchedulerName != "", s.SchedulerName)
	f := src.function
	if f == nil {
		return
	}
	if src.limit != "" {
		podLabels[v1alpha1.ResourceLimitLabel] = src.limit
	}
	if f.Spec.AvailableLocation != "" {
		ensure(spec, "nodeSelector")[corev1.LabelTopologyZone] = f.Spec.AvailableLocation
	}
	setDefault(spec, "affinity", src.nearODGM, nearODGM(labels[v1alpha1.OwnerLabel]))
	setDefault(spec, "topologySpreadConstraints", f.Availability >= spreadFrom, overZones(labels))
}

// podTemplate returns that of a Deployment.
func podTemplate(o *unstructured.Unstructured) (map[string]any, bool) {
	if o.GetKind() != "Deployment" {
		return nil, false
	}
	return child(o.Object, "spec", "template")
}

// setDefault sets a field if the condition holds and the template does not set it.
func setDefault(m map[string]any, key string, condition bool, value any) {
	if condition && m[key] == nil {
		m[key] = value
	}
}

// limitsOf returns a ResourceLimit for the allocation of a record.
func limitsOf(record *v1alpha1.DeploymentRecord, n names) []*unstructured.Unstructured {
	a := record.Spec.ResourceAllocation
	if a == nil {
		return nil
	}
	spec := map[string]any{}
	for key, value := range map[string]string{"cpu": a.CPU, "memory": a.Memory, "cpuLimit": a.CPULimit, "memoryLimit": a.MemoryLimit} {
		if value != "" {
			spec[key] = value
		}
	}
	labels := map[string]string{v1alpha1.OwnerLabel: n.label}
	return []*unstructured.Unstructured{newObject("ResourceLimit", record.Namespace, n.limit, labels, spec)}
}

// mixesOf returns a CapacityMix for each Deployment of the ODGM, which keeps data and stays on on-demand capacity, and of functions
// that require an availability.
func mixesOf(objects []object) (mixes []*unstructured.Unstructured) {
	for _, o := range objects {
		split := &Split{SpotPercent: 0, MinOnDemand: 1}
		if o.function != nil {
			split = o.function.Split
		}
		if _, is := podTemplate(o.Unstructured); !is || split == nil {
			continue
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

func unstructuredOf(objects []object) []*unstructured.Unstructured {
	list := make([]*unstructured.Unstructured, len(objects))
	for i := range objects {
		list[i] = objects[i].Unstructured
	}
	return list
}

// selectorOf returns the labels that only the pods of one workload of a record have.
func selectorOf(labels map[string]string) map[string]any {
	m := map[string]any{}
	for _, key := range []string{v1alpha1.OwnerLabel, v1alpha1.ComponentLabel, v1alpha1.FunctionLabel} {
		if labels[key] != "" {
			m[key] = labels[key]
		}
	}
	return m
}

func newObject(kind, namespace, name string, labels map[string]string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(kind))
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(maps.Clone(labels))
	return o
}

// overZones prefers zones with few replicas. A hard rule would leave replicas without a node if a zone is full.
func overZones(labels map[string]string) []any {
	return []any{map[string]any{
		"maxSkew":           int64(1),
		"topologyKey":       corev1.LabelTopologyZone,
		"whenUnsatisfiable": "ScheduleAnyway",
		"labelSelector":     map[string]any{"matchLabels": selectorOf(labels)},
	}}
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

// child returns a map below a map.
func child(m map[string]any, path ...string) (map[string]any, bool) {
	for _, key := range path {
		next, ok := m[key].(map[string]any)
		if !ok {
			return nil, false
		}
		m = next
	}
	return m, true
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
