// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/apis/v1alpha1"
)

// spreadFrom is the availability from which on replicas are spread over zones.
const spreadFrom = 0.99

// place says where the pods of a record may run: a CapacityMix for functions
// that request an availability, a ResourceLimit for the record's size, and on
// the pods the scheduler, the zone, the spread, and to be near the ODGM.
func (r *Rendered) place(record *v1alpha1.DeploymentRecord, s Settings) {
	var first []*unstructured.Unstructured // before the pods that they are for
	var limit string
	if a := record.Spec.ResourceAllocation; a != nil {
		limit = ChildName(record.Name, "")
		first = append(first, sized(record, limit, a))
	}
	for _, o := range r.Objects {
		pods, ok := child(o.Object, "spec", "template")
		if o.GetKind() != "Deployment" || !ok {
			continue
		}
		labels := o.GetLabels()
		onPods, spec := ensure(ensure(pods, "metadata"), "labels"), ensure(pods, "spec")
		maps.Copy(onPods, own(labels))
		unlessSaid(spec, "schedulerName", s.SchedulerName != "", s.SchedulerName)
		split := Split{SpotPercent: 0, MinOnDemand: 1} // the ODGM keeps data, and stays where no one takes nodes back
		if f := r.byLabel(labels[v1alpha1.FunctionLabel]); f != nil {
			r.placeFunction(record, f, limit, labels, onPods, spec)
			if f.NFR.Availability == nil {
				continue
			}
			split = SplitFor(Number(*f.NFR.Availability), s.Reliability)
		}
		first = append(first, mixed(record, o.GetName(), labels, split))
	}
	r.Objects = append(first, r.Objects...)
}

// placeFunction does so for the pods of a function.
func (r *Rendered) placeFunction(record *v1alpha1.DeploymentRecord, f *Function, limit string, labels map[string]string, onPods, spec map[string]any) {
	if limit != "" && f.Spec.Resources == nil {
		onPods[v1alpha1.ResourceLimitLabel] = limit
	}
	if f.Spec.AvailableLocation != "" {
		ensure(spec, "nodeSelector")[corev1.LabelTopologyZone] = f.Spec.AvailableLocation
	}
	unlessSaid(spec, "affinity", f.NFR.MaxLatencyMS != nil && r.ODGM != "", nearODGM(record))
	unlessSaid(spec, "topologySpreadConstraints", f.NFR.Availability != nil && Number(*f.NFR.Availability) >= spreadFrom, overZones(labels))
}

// unlessSaid sets a field if it is wanted and the template does not say it itself.
func unlessSaid(m map[string]any, key string, wanted bool, value any) {
	if wanted && m[key] == nil {
		m[key] = value
	}
}

func (r *Rendered) byLabel(function string) *Function {
	for i := range r.Functions {
		if function != "" && Hash(r.Functions[i].Spec.FunctionKey) == function {
			return &r.Functions[i]
		}
	}
	return nil
}

// own are the labels that tell the pods of one workload of a record from all others.
func own(labels map[string]string) map[string]any {
	m := map[string]any{}
	for _, key := range []string{v1alpha1.OwnerLabel, v1alpha1.ComponentLabel, v1alpha1.FunctionLabel} {
		if labels[key] != "" {
			m[key] = labels[key]
		}
	}
	return m
}

func mixed(record *v1alpha1.DeploymentRecord, name string, labels map[string]string, s Split) *unstructured.Unstructured {
	return object("CapacityMix", record, name, labels, map[string]any{
		"selector":    map[string]any{"matchLabels": own(labels)},
		"spotPercent": int64(s.SpotPercent), "minOnDemand": int64(s.MinOnDemand), "whenSpotUnavailable": "OnDemand",
	})
}

func sized(record *v1alpha1.DeploymentRecord, name string, a *v1alpha1.ResourceAllocation) *unstructured.Unstructured {
	spec := map[string]any{}
	for key, value := range map[string]string{"cpu": a.CPU, "memory": a.Memory, "cpuLimit": a.CPULimit, "memoryLimit": a.MemoryLimit} {
		if value != "" {
			spec[key] = value
		}
	}
	return object("ResourceLimit", record, name, map[string]string{v1alpha1.OwnerLabel: LabelValue(record.Name)}, spec)
}

func object(kind string, record *v1alpha1.DeploymentRecord, name string, labels map[string]string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(kind))
	o.SetNamespace(record.Namespace)
	o.SetName(name)
	o.SetLabels(maps.Clone(labels))
	return o
}

// overZones prefers zones with few replicas. A rule would leave replicas without a node where a zone is full.
func overZones(labels map[string]string) []any {
	return []any{map[string]any{
		"maxSkew": int64(1), "topologyKey": corev1.LabelTopologyZone, "whenUnsatisfiable": "ScheduleAnyway",
		"labelSelector": map[string]any{"matchLabels": own(labels)},
	}}
}

// nearODGM prefers the node of the ODGM, and then its zone.
func nearODGM(record *v1alpha1.DeploymentRecord) map[string]any {
	pods := map[string]any{"matchLabels": map[string]any{
		v1alpha1.OwnerLabel: LabelValue(record.Name), v1alpha1.ComponentLabel: ComponentODGM,
	}}
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

// ensure returns the map of a key, which it makes if there is none.
func ensure(m map[string]any, key string) map[string]any {
	if have, ok := m[key].(map[string]any); ok {
		return have
	}
	made := map[string]any{}
	m[key] = made
	return made
}

// Names returns the names of the objects of a kind, in order.
func (r *Rendered) Names(kind string) (names []string) {
	for _, o := range r.Objects {
		if o.GetKind() == kind {
			names = append(names, o.GetName())
		}
	}
	slices.Sort(names)
	return names
}
