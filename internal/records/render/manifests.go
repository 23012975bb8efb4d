// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
)

// Components of a record.
const (
	ComponentFunction = "function"
	ComponentODGM     = "odgm"
)

// Kinds are the kinds that manifests may have. Another kind would need rights that the controller does not have.
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

// source is a list of manifests, and what they are rendered with.
type source struct {
	manifests []string
	// field is that of the template.
	field     string
	variables Variables
	// labels select the children of a record, its components and functions.
	labels map[string]string
	// service is one that the manifests must have, "" for none.
	service string
	// function is nil for the ODGM.
	function *Function
	// limit is the ResourceLimit of the pods, "" for none; nearODGM means that there is an ODGM that they should be close to.
	limit    string
	nearODGM bool
}

// sourcesOf returns the manifests of the ODGM, if there is one, and those of each function.
func sourcesOf(
	record *v1alpha1.DeploymentRecord, t *v1alpha1.DeploymentTemplate, s Settings, n names, functions []Function, odgm ODGM,
) (sources []source) {
	vars := variables{record, t, s, n, functions, odgm}
	if odgm.Name != "" {
		sources = append(sources, source{
			manifests: odgm.manifests,
			field:     "odgmManifests",
			variables: vars.ofODGM(),
			labels:    map[string]string{v1alpha1.OwnerLabel: n.label, v1alpha1.ComponentLabel: ComponentODGM},
			service:   odgm.Service,
		})
	}
	for i := range functions {
		f := &functions[i]
		if f.Name == "" {
			continue
		}
		src := source{
			manifests: t.Spec.FunctionManifests,
			field:     "functionManifests",
			variables: vars.ofFunction(f),
			labels: map[string]string{
				v1alpha1.OwnerLabel:     n.label,
				v1alpha1.ComponentLabel: ComponentFunction,
				v1alpha1.FunctionLabel:  Hash(f.Spec.FunctionKey),
			},
			function: f,
			nearODGM: odgm.Name != "" && f.NFR.MaxLatencyMS != nil,
		}
		if record.Spec.ResourceAllocation != nil && f.Spec.Resources == nil {
			src.limit = n.limit
		}
		sources = append(sources, src)
	}
	return sources
}

// object is a rendered object, and the function that it is for; nil for the ODGM.
type object struct {
	*unstructured.Unstructured
	function *Function
}

// objectsOf renders manifests, and completes the objects with their labels and the placement of their pods.
func objectsOf(namespace string, sources []source, s Settings) (objects []object, err error) {
	for i := range sources {
		src := &sources[i]
		for j, manifest := range src.manifests {
			path := field.NewPath("spec", src.field).Index(j)
			content, err := Substitute(path, manifest, src.variables)
			if err != nil {
				return nil, &Error{v1alpha1.ReasonInvalidTemplate, err}
			}
			o := &unstructured.Unstructured{Object: content}
			if err := check(path, o, namespace); err != nil {
				return nil, &Error{v1alpha1.ReasonInvalidTemplate, err}
			}
			if has(objects, o.GetKind(), o.GetName()) {
				err := field.Duplicate(path.Child("metadata", "name"), o.GetKind()+" "+o.GetName())
				return nil, &Error{v1alpha1.ReasonInvalidTemplate, err}
			}
			labels := o.GetLabels()
			if labels == nil {
				labels = map[string]string{}
			}
			maps.Copy(labels, src.labels)
			o.SetNamespace(namespace)
			o.SetLabels(labels)
			place(o, src, s)
			objects = append(objects, object{o, src.function})
		}
		if src.service != "" && !has(objects, "Service", src.service) {
			err := fmt.Errorf("spec.%s make no Service %s, which functions are configured to call", src.field, src.service)
			return nil, &Error{v1alpha1.ReasonInvalidTemplate, err}
		}
	}
	return objects, nil
}

func has(objects []object, kind, name string) bool {
	return slices.ContainsFunc(objects, func(o object) bool { return o.GetKind() == kind && o.GetName() == name })
}

// check refuses an object that the controller cannot, or must not, apply.
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
