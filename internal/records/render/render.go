// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/apis/v1alpha1"
)

// Settings are what the controller adds to a record.
type Settings struct {
	// DefaultFunctionImage is the image of functions that name none, "" if there is none.
	DefaultFunctionImage string
	// ODGM turns the ODGM on; ODGMImage is its image, "" if there is none.
	ODGM      bool
	ODGMImage string
	// SchedulerName places the pods, "" leaves it to the cluster.
	SchedulerName string
	Reliability   Reliability
	// Enforce lets replicas follow the measurements. HPA renders a HorizontalPodAutoscaler for them, which goes up to MaxReplicas
	// if the function has no bound.
	Enforce, HPA bool
	MaxReplicas  int32
	// Router is the address of a zenoh router, as a locator of zenoh (tcp/host:port), "" if there is none.
	Router string
	// OTLPEndpoint is the URL that telemetry is sent to, "" if there is none.
	OTLPEndpoint string
}

// Rendered is what a record requires.
type Rendered struct {
	// Objects are in the order in which they are applied.
	Objects   []Object
	Functions []Function
	// ODGM are the names of its workloads, none if there is no ODGM; ODGMAddress is where functions reach it.
	ODGM        []string
	ODGMAddress string
	// Addons are those of the template that the record has.
	Addons []RenderedAddon
}

// RenderedAddon is what is rendered of an add-on.
type RenderedAddon struct {
	// Key is the name of the add-on, Workloads are the names of its Deployments and Knative Services.
	Key       string
	Workloads []string
}

// Object is a rendered object.
type Object struct {
	*unstructured.Unstructured
	// Unassigned is the path of the field that is only set when the object is created, because others set it afterwards; nil if
	// there is none.
	Unassigned []string
	// function is the one that a manifest was rendered for, nil for the ODGM and for add-ons.
	function *Function
}

// Error is why a record cannot be rendered.
type Error struct {
	// Reason is one word for conditions and events.
	Reason string
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// Render returns what a record requires, with a template.
func Render(record *v1alpha1.DeploymentRecord, t *v1alpha1.DeploymentTemplate, s Settings) (*Rendered, error) {
	p, err := parse(t)
	if err != nil {
		return nil, &Error{v1alpha1.ReasonInvalidTemplate, err}
	}
	return render(record, t, &p, s)
}

// render returns what a record requires. Each step is a function of the results of the steps before it.
func render(record *v1alpha1.DeploymentRecord, t *v1alpha1.DeploymentTemplate, p *parsed, s Settings) (*Rendered, error) {
	names := namesOf(record)
	odgm, err := odgmOf(record, s, names)
	if err != nil {
		return nil, err
	}
	functions, err := functionsOf(record, t, s, names)
	if err != nil {
		return nil, err
	}
	addons, err := addonsOf(record, t)
	if err != nil {
		return nil, err
	}
	vars := &variables{record: record, template: t, settings: s, names: names, functions: functions, odgm: odgm, addons: addons}
	if err := vars.shared(); err != nil {
		return nil, err
	}
	sources := sourcesOf(vars, p)
	objects, err := objectsOf(record.Namespace, sources, s)
	if err != nil {
		return nil, &Error{v1alpha1.ReasonInvalidTemplate, err}
	}
	return &Rendered{
		// Limits and mixes come before the pods that they are for.
		Objects:     slices.Concat(limitsOf(record, names), mixesOf(objects), scaled(&record.Spec, objects, s)),
		Functions:   functions,
		ODGM:        odgm.workloads(),
		ODGMAddress: odgm.Address,
		Addons:      renderedAddons(addons, objects),
	}, nil
}
