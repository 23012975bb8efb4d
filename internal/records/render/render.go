// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
)

// Settings are what the controller adds to what a record says.
type Settings struct {
	// DefaultFunctionImage is the image of functions that name none, "" if there is none.
	DefaultFunctionImage string
	// ODGM says that it is on; ODGMImage is its image, "" if there is none.
	ODGM      bool
	ODGMImage string
	// SchedulerName places the pods, "" leaves it to the cluster.
	SchedulerName string
	Reliability   Reliability
	// Enforce says that replicas may follow what is measured; HPA that a HorizontalPodAutoscaler is made for them, which
	// goes to MaxReplicas where the function has no bound.
	Enforce, HPA bool
	MaxReplicas  int32
	// Router is where a zenoh router is reached, as a locator of zenoh (tcp/host:port), "" if there is none.
	Router string
}

// Components of a record.
const (
	ComponentFunction = "function"
	ComponentODGM     = "odgm"
)

// Function is what becomes of one function.
type Function struct {
	Spec *v1alpha1.FunctionSpec
	// Name is that of its workload and of its Service, "" for one that runs in the ODGM.
	Name     string
	Port     int32
	Replicas int32
	NFR      v1alpha1.NFRRequirements
}

// URL is where a function answers within the cluster.
func (f *Function) URL(namespace string) string {
	if f.Name == "" {
		return "wasm://" + f.Spec.FunctionKey
	}
	return "http://" + f.Name + "." + namespace + ".svc.cluster.local/"
}

// Rendered is what a record queries the API server for.
type Rendered struct {
	// Objects are in the order in which they are to be applied.
	Objects   []*unstructured.Unstructured
	Functions []Function
	// ODGM is the name of its workload, "" if there is none; ODGMAddress is where functions reach it.
	ODGM, ODGMAddress string
	// floating are the objects of which a field is only said when they are made: others set it from then on.
	floating map[string]bool
}

// Kinds are what manifests may make. Another kind would need rights that the controller does not have.
var Kinds = []schema.GroupKind{
	{Group: "apps", Kind: "Deployment"},
	{Kind: "Service"},
	{Kind: "ConfigMap"},
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"},
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"},
	{Group: "policy", Kind: "PodDisruptionBudget"},
	{Group: "serving.knative.dev", Kind: "Service"},
	{Group: "berth.dev", Kind: "CapacityMix"},
	{Group: "berth.dev", Kind: "ResourceLimit"},
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

// ErrNoODGMImage is why a record with an ODGM cannot be rendered while no image is configured.
var ErrNoODGMImage = errors.New("the record has an ODGM, and records.odgmImage of berth-controller's configuration is empty: " +
	"set that field to an image, or spec.addons of the record to a list without odgm")

// Render returns what a record queries the API server for, with a template.
func Render(record *v1alpha1.DeploymentRecord, t *v1alpha1.DeploymentTemplate, s Settings) (*Rendered, error) {
	r := &Rendered{}
	odgm := HasODGM(&record.Spec, s.ODGM)
	if odgm {
		if s.ODGMImage == "" {
			return nil, &Error{v1alpha1.ReasonImageMissing, ErrNoODGMImage}
		}
		r.ODGM = ChildName(record.Name, "-odgm")
		r.ODGMAddress = fmt.Sprintf("%s:%d", ODGMService(record.Name), ODGMPort)
	}
	var err error
	if r.Functions, err = functionsOf(record, t, s, odgm); err != nil {
		return nil, err
	}
	if odgm {
		if err := r.render(record, odgmManifests(t), "odgmManifests", ComponentODGM, "", odgmVariables(record, r, s)); err != nil {
			return nil, err
		}
		if want := ODGMService(record.Name); !r.has("Service", want) {
			return nil, &Error{v1alpha1.ReasonInvalidTemplate, fmt.Errorf("spec.odgmManifests make no Service %s, which functions are told to call", want)}
		}
	}
	for i := range r.Functions {
		f := &r.Functions[i]
		if f.Name == "" {
			continue
		}
		if err := r.render(record, t.Spec.FunctionManifests, "functionManifests", ComponentFunction, f.Spec.FunctionKey, functionVariables(record, t, f, r, s)); err != nil {
			return nil, err
		}
	}
	r.float(record, s)
	r.place(record, s)
	return r, nil
}

// HasODGM reports whether a record has an ODGM: it is on, and the record names it or no addons at all.
func HasODGM(spec *v1alpha1.DeploymentRecordSpec, on bool) bool {
	return on && (spec.Addons == nil || slices.Contains(*spec.Addons, v1alpha1.AddonODGM))
}

// NeedsODGM reports whether a record cannot do without an ODGM: it names the addon, or has a function that runs in it.
func NeedsODGM(spec *v1alpha1.DeploymentRecordSpec) bool {
	return spec.Addons != nil && slices.Contains(*spec.Addons, v1alpha1.AddonODGM) ||
		slices.ContainsFunc(spec.DeploymentUnit.Functions, func(f v1alpha1.FunctionSpec) bool { return f.WASMModuleURL != "" })
}

// functionsOf works out names, ports and replicas. A function keeps its name for
// as long as it is there, so that a sibling that goes or comes changes nothing for it.
func functionsOf(record *v1alpha1.DeploymentRecord, t *v1alpha1.DeploymentTemplate, s Settings, odgm bool) ([]Function, error) {
	spec := &record.Spec
	if NeedsODGM(spec) && !odgm {
		return nil, &Error{v1alpha1.ReasonODGMOff, fmt.Errorf("spec.addons or a WebAssembly function requests an ODGM, which is off (records.features.odgm)")}
	}
	list := make([]Function, len(spec.DeploymentUnit.Functions))
	for i := range list {
		f := &list[i]
		f.Spec = &spec.DeploymentUnit.Functions[i]
		f.NFR = RequirementsOf(spec, f.Spec)
		if f.runsInODGM() {
			continue
		}
		if cmp.Or(f.Spec.Image, s.DefaultFunctionImage) == "" {
			path := field.NewPath("spec", "deploymentUnit", "functions").Key(f.Spec.FunctionKey).Child("image")
			return nil, &Error{v1alpha1.ReasonImageMissing, field.Required(path, "and there is no records.defaultFunctionImage")}
		}
		f.Port = cmp.Or(f.Spec.Port, t.Spec.DefaultPort, 8080)
		f.Replicas = replicasOf(f, s)
	}
	name(record, list)
	return list, nil
}

func (f *Function) runsInODGM() bool { return f.Spec.WASMModuleURL != "" }

// name gives the functions their names: those that have one keep it.
func name(record *v1alpha1.DeploymentRecord, list []Function) {
	taken := map[string]bool{}
	for i := range list {
		f := &list[i]
		for _, before := range record.Status.Functions {
			if before.FunctionKey == f.Spec.FunctionKey && !f.runsInODGM() && before.Service != "" {
				f.Name = before.Service
				taken[f.Name] = true
			}
		}
	}
	next := 0
	for i := range list {
		f := &list[i]
		if f.runsInODGM() || f.Name != "" {
			continue
		}
		if len(list) == 1 {
			f.Name = ChildName(record.Name, "")
			continue
		}
		for f.Name == "" || taken[f.Name] {
			f.Name = ChildName(record.Name, fmt.Sprintf("-fn-%d", next))
			next++
		}
		taken[f.Name] = true
	}
}

// replicasOf is what a function says, else what its availability requests, within its bounds.
func replicasOf(f *Function, s Settings) int32 {
	n := int32(1)
	switch {
	case f.Spec.MinScale != nil:
		return *f.Spec.MinScale
	case f.NFR.Availability != nil || f.NFR.Consistency == v1alpha1.ConsistencyStrong:
		target := 0.0
		if f.NFR.Availability != nil {
			target = Number(*f.NFR.Availability)
		}
		n = ReplicasFor(target, f.NFR.Consistency == v1alpha1.ConsistencyStrong, s.Reliability)
	}
	if most := f.Spec.MaxScale; most != nil && *most > 0 {
		n = min(n, *most)
	}
	return n
}

// render adds the objects of some manifests.
func (r *Rendered) render(record *v1alpha1.DeploymentRecord, manifests []string, name, component, function string, vars Variables) error {
	for i, m := range manifests {
		path := field.NewPath("spec", name).Index(i)
		content, err := Substitute(path, m, vars)
		if err != nil {
			return &Error{v1alpha1.ReasonInvalidTemplate, err}
		}
		o := &unstructured.Unstructured{Object: content}
		if err := check(path, o, record.Namespace); err != nil {
			return &Error{v1alpha1.ReasonInvalidTemplate, err}
		}
		if r.has(o.GetKind(), o.GetName()) {
			return &Error{v1alpha1.ReasonInvalidTemplate, field.Duplicate(path.Child("metadata", "name"), o.GetKind()+" "+o.GetName())}
		}
		o.SetNamespace(record.Namespace)
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[v1alpha1.OwnerLabel], labels[v1alpha1.ComponentLabel] = LabelValue(record.Name), component
		if function != "" {
			labels[v1alpha1.FunctionLabel] = Hash(function)
		}
		o.SetLabels(labels)
		r.Objects = append(r.Objects, o)
	}
	return nil
}

func (r *Rendered) has(kind, name string) bool {
	return slices.ContainsFunc(r.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
}

// check says what of an object the controller cannot, or must not, apply.
func check(path *field.Path, o *unstructured.Unstructured, namespace string) error {
	gv, err := schema.ParseGroupVersion(o.GetAPIVersion())
	switch {
	case o.GetAPIVersion() == "" || err != nil:
		return field.Invalid(path.Child("apiVersion"), o.GetAPIVersion(), "must be a group and a version")
	case !slices.Contains(Kinds, schema.GroupKind{Group: gv.Group, Kind: o.GetKind()}):
		return field.NotSupported(path.Child("kind"), strings.TrimPrefix(gv.Group+"/"+o.GetKind(), "/"), kindNames())
	case o.GetNamespace() != "" && o.GetNamespace() != namespace:
		return field.Invalid(path.Child("metadata", "namespace"), o.GetNamespace(), "must be that of the record, or absent")
	case len(o.GetOwnerReferences()) > 0:
		return field.Forbidden(path.Child("metadata", "ownerReferences"), "the controller sets them")
	case len(o.GetFinalizers()) > 0:
		return field.Forbidden(path.Child("metadata", "finalizers"), "they would keep the record from being deleted")
	}
	if errs := validation.IsDNS1123Subdomain(o.GetName()); len(errs) > 0 {
		return field.Invalid(path.Child("metadata", "name"), o.GetName(), strings.Join(errs, ", "))
	}
	return nil
}

func kindNames() []string {
	names := make([]string, len(Kinds))
	for i, k := range Kinds {
		names[i] = strings.TrimPrefix(k.Group+"/"+k.Kind, "/")
	}
	return names
}

// LabelValue is a text as the value of a label: itself, if it can be one.
func LabelValue(text string) string {
	if len(validation.IsValidLabelValue(text)) == 0 {
		return text
	}
	return Hash(text)
}

// resourcesOf returns what a container requests and may use, nil if no one says it.
func resourcesOf(f *v1alpha1.ResourceAllocation, others ...*v1alpha1.ResourceAllocation) map[string]any {
	for _, other := range others {
		if f != nil {
			break
		}
		f = other
	}
	if f == nil {
		return nil
	}
	out := map[string]any{}
	for _, side := range []struct{ name, cpu, memory string }{{"requests", f.CPU, f.Memory}, {"limits", f.CPULimit, f.MemoryLimit}} {
		m := map[string]any{}
		if side.cpu != "" {
			m[string(corev1.ResourceCPU)] = side.cpu
		}
		if side.memory != "" {
			m[string(corev1.ResourceMemory)] = side.memory
		}
		if len(m) > 0 {
			out[side.name] = m
		}
	}
	return out
}
