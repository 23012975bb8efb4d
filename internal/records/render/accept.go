// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// exampleImage replaces the images that a record or the controller names.
const exampleImage = "registry.example/image:1"

// CheckTemplate renders two examples with a template, one with all fields of a record and one with as few as possible, and returns an
// *Error of reason InvalidTemplate if that fails. Objects that the API server would refuse are found only when a record is applied.
func CheckTemplate(t *v1alpha1.DeploymentTemplate, s Settings) error {
	if err := checkAddons(t); err != nil {
		return &Error{v1alpha1.ReasonInvalidTemplate, err}
	}
	p, err := parse(t)
	if err != nil {
		return &Error{v1alpha1.ReasonInvalidTemplate, err}
	}
	s.ODGM = true
	s.ODGMImage, s.DefaultFunctionImage = cmp.Or(s.ODGMImage, exampleImage), cmp.Or(s.DefaultFunctionImage, exampleImage)
	for _, example := range []*v1alpha1.DeploymentRecord{leastExample(), withAddons(fullExample(), t)} {
		_, err := render(example, t, &p, s)
		if refused, ok := errors.AsType[*Error](err); ok && refused.Reason == v1alpha1.ReasonInvalidTemplate {
			return refused
		}
	}
	return nil
}

func leastExample() *v1alpha1.DeploymentRecord {
	r := &v1alpha1.DeploymentRecord{ObjectMeta: metav1.ObjectMeta{Namespace: "example", Name: "least"}}
	r.Spec.DeploymentUnit.Functions = []v1alpha1.FunctionSpec{{FunctionKey: "only"}}
	return r
}

func fullExample() *v1alpha1.DeploymentRecord {
	r := &v1alpha1.DeploymentRecord{ObjectMeta: metav1.ObjectMeta{Namespace: "example", Name: "full"}}
	r.Spec.DeploymentUnit = v1alpha1.DeploymentUnit{ID: "Full!", PackageName: "example", ClassKey: "example.Full"}
	r.Spec.NFRRequirements = &v1alpha1.NFRRequirements{
		MaxLatencyMS: new(int32(100)), MinThroughputRPS: new(int32(100)), Availability: new("0.999"), CPUUtilizationTarget: new("0.7"),
		Consistency: v1alpha1.ConsistencyStrong,
	}
	size := &v1alpha1.ResourceAllocation{CPU: "100m", Memory: "64Mi", CPULimit: "1", MemoryLimit: "128Mi"}
	r.Spec.ResourceAllocation = size
	r.Spec.ODGMConfig = &v1alpha1.ODGMConfig{Collections: []string{"example"}}
	for _, key := range []string{"first", "second"} {
		r.Spec.DeploymentUnit.Functions = append(r.Spec.DeploymentUnit.Functions, v1alpha1.FunctionSpec{
			FunctionKey: key, Image: exampleImage, Port: 9000, HTTP2: true, MaxConcurrency: 10, MinScale: new(int32(1)),
			MaxScale:  new(int32(3)),
			Resources: size, AvailableLocation: "zone-a", Config: map[string]v1alpha1.ConfigValue{"KEY": "value: ${x} \"'\n- {"},
		})
	}
	return r
}
