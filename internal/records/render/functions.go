// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
)

// Function is what is rendered of a function.
type Function struct {
	Spec *v1alpha1.FunctionSpec
	// Name is that of its workload and of its Service, "" for a function that runs in the ODGM.
	Name string
	// URL is where the function is reached within the cluster.
	URL      string
	Port     int32
	Replicas int32
	NFR      v1alpha1.NFRRequirements
	// Availability is that of NFR as a number, 0 for none.
	Availability float64
	// Utilization is the share of its CPU, in percent, that a replica should use.
	Utilization int64
	// Split is how much of it may be on spot capacity, nil if it requires no availability.
	Split *Split
}

// defaultUtilization is the share of its CPU, in percent, that a replica should use by default.
const defaultUtilization = 70

// functionsOf returns the functions of a record.
func functionsOf(record *v1alpha1.DeploymentRecord, t *v1alpha1.DeploymentTemplate, s Settings, n names) ([]Function, error) {
	spec := &record.Spec
	list := make([]Function, len(spec.DeploymentUnit.Functions))
	for i := range list {
		f := &spec.DeploymentUnit.Functions[i]
		list[i] = Function{Spec: f, Name: n.functions[i], URL: "wasm://" + f.FunctionKey, NFR: RequirementsOf(spec, f)}
		if list[i].Name == "" {
			continue
		}
		if cmp.Or(f.Image, s.DefaultFunctionImage) == "" {
			path := field.NewPath("spec", "deploymentUnit", "functions").Key(f.FunctionKey).Child("image")
			return nil, &Error{v1alpha1.ReasonImageMissing, field.Required(path, "and there is no records.defaultFunctionImage")}
		}
		if a := list[i].NFR.Availability; a != nil {
			list[i].Availability = Number(*a)
			list[i].Split = new(SplitFor(list[i].Availability, s.Reliability))
		}
		list[i].Utilization = defaultUtilization
		if target := list[i].NFR.CPUUtilizationTarget; target != nil {
			list[i].Utilization = max(1, int64(100*Number(*target)+0.5))
		}
		list[i].URL = "http://" + list[i].Name + "." + record.Namespace + ".svc.cluster.local/"
		list[i].Port = cmp.Or(f.Port, t.Spec.DefaultPort, 8080)
		list[i].Replicas = replicasOf(&list[i], s)
	}
	return list, nil
}

// replicasOf returns the replicas of a function: its minimum, else what its availability requires, within its bounds.
func replicasOf(f *Function, s Settings) int32 {
	n := int32(1)
	switch {
	case f.Spec.MinScale != nil:
		return *f.Spec.MinScale
	case f.NFR.Availability != nil || f.NFR.Consistency == v1alpha1.ConsistencyStrong:
		n = ReplicasFor(f.Availability, f.NFR.Consistency == v1alpha1.ConsistencyStrong, s.Reliability)
	}
	if most := f.Spec.MaxScale; most != nil && *most > 0 {
		n = min(n, *most)
	}
	return n
}

// RequirementsOf returns the requirements of a function: its own, and for the others those of the record.
func RequirementsOf(spec *v1alpha1.DeploymentRecordSpec, f *v1alpha1.FunctionSpec) v1alpha1.NFRRequirements {
	var n v1alpha1.NFRRequirements
	for _, from := range []*v1alpha1.NFRRequirements{f.NFRRequirements, spec.NFRRequirements} {
		if from == nil {
			continue
		}
		n.MinThroughputRPS = cmp.Or(n.MinThroughputRPS, from.MinThroughputRPS)
		n.MaxLatencyMS = cmp.Or(n.MaxLatencyMS, from.MaxLatencyMS)
		n.Availability = cmp.Or(n.Availability, from.Availability)
		n.CPUUtilizationTarget = cmp.Or(n.CPUUtilizationTarget, from.CPUUtilizationTarget)
		n.Consistency = cmp.Or(n.Consistency, from.Consistency)
	}
	return n
}
