// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
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
	manifests []*Manifest
	// field is that of the template.
	field     string
	variables Variables
	// labels select the children of a record, its components and functions. Those of the original's come too.
	labels map[string]string
	// service is one that the manifests must have, "" for none.
	service string
	// function is nil for the ODGM and for add-ons.
	function *Function
	// limit is the ResourceLimit of the pods, "" for none; nearODGM means that there is an ODGM that they should be close to.
	limit    string
	nearODGM bool
	// another is set for each member of the ODGM but the first, with which it shares objects of the same name. apart means that the
	// members prefer other nodes than those of the others.
	another, apart bool
}

// sourcesOf returns the manifests of the ODGM, if there is one, of the add-ons, and of each function.
func sourcesOf(vars *variables, p *parsed) (sources []source) {
	record, n, functions, odgm := vars.record, &vars.names, vars.functions, &vars.odgm
	for i, m := range odgm.Members {
		sources = append(sources, source{
			manifests: p.odgm,
			field:     "odgmManifests",
			variables: vars.ofODGM(m),
			labels:    n.labels(ComponentODGM),
			service:   odgm.Service,
			another:   i > 0,
			apart:     len(odgm.Members) > 1,
		})
	}
	for i := range vars.addons {
		a := &vars.addons[i]
		src := source{
			manifests: p.addons[a.Key], field: fieldOf(a.Key), variables: vars.ofAddon(a), labels: n.labels(ComponentAddon),
		}
		src.labels[v1alpha1.AddonLabel] = a.Key
		sources = append(sources, src)
	}
	for i := range functions {
		f := &functions[i]
		if f.Name == "" {
			continue
		}
		src := source{
			manifests: p.functions,
			field:     "functionManifests",
			variables: vars.ofFunction(f),
			labels:    n.labels(ComponentFunction),
			function:  f,
			nearODGM:  len(odgm.Members) > 0 && f.NFR.MaxLatencyMS != nil,
		}
		src.labels[v1alpha1.FunctionLabel] = Hash(f.Spec.FunctionKey)
		if record.Spec.ResourceAllocation != nil && f.Spec.Resources == nil {
			src.limit = n.limit
		}
		sources = append(sources, src)
	}
	return sources
}

// objectsOf renders manifests, and completes the objects with their labels and the placement of their pods.
func objectsOf(namespace string, sources []source, s Settings) (objects []Object, err error) {
	if err := checkCost(sources); err != nil {
		return nil, err
	}
	for i := range sources {
		src := &sources[i]
		for j, manifest := range src.manifests {
			path := field.NewPath("spec", src.field).Index(j)
			content, err := Substitute(path, manifest, src.variables)
			if err != nil {
				return nil, err
			}
			o := &unstructured.Unstructured{Object: content}
			if err := check(path, o, namespace); err != nil {
				return nil, err
			}
			if has(objects, o.GetKind(), o.GetName()) {
				if src.another {
					continue
				}
				return nil, field.Duplicate(path.Child("metadata", "name"), o.GetKind()+" "+o.GetName())
			}
			o.SetNamespace(namespace)
			o.SetLabels(labels.Merge(o.GetLabels(), src.labels))
			place(o, src, s)
			objects = append(objects, Object{Unstructured: o, function: src.function})
		}
		if src.service != "" && !has(objects, "Service", src.service) {
			return nil, fmt.Errorf("spec.%s make no Service %s, which functions are configured to call", src.field, src.service)
		}
	}
	return objects, nil
}

func has(objects []Object, kind, name string) bool {
	return slices.ContainsFunc(objects, func(o Object) bool { return o.GetKind() == kind && o.GetName() == name })
}

// check refuses an object that the controller cannot, or must not, apply.
func check(path *field.Path, o *unstructured.Unstructured, namespace string) error {
	gv, err := schema.ParseGroupVersion(o.GetAPIVersion())
	kind := schema.GroupKind{Group: gv.Group, Kind: o.GetKind()}
	switch {
	case o.GetAPIVersion() == "" || err != nil:
		return field.Invalid(path.Child("apiVersion"), o.GetAPIVersion(), "must be a group and a version")
	case !slices.Contains(Kinds, kind):
		return field.NotSupported(path.Child("kind"), kindName(kind), kindNames())
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

func kindNames() (names []string) {
	for _, k := range Kinds {
		names = append(names, kindName(k))
	}
	return names
}

func kindName(k schema.GroupKind) string { return strings.TrimPrefix(k.Group+"/"+k.Kind, "/") }
