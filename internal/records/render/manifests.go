// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

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

// variable is a reference in a scalar; a "$" before it makes it plain text.
var variable = regexp.MustCompile(`\$?\$\{([^}]*)\}`)

// Substitute parses a manifest and puts the values of variables in the places of
// its scalars. Since it does so after parsing, a value can neither end its field
// nor begin another. A scalar that is nothing but a variable becomes its value,
// whatever its type; in the midst of text only texts and numbers can stand.
func Substitute(path *field.Path, manifest string, vars Variables) (map[string]any, error) {
	var parsed any
	if err := yaml.UnmarshalStrict([]byte(manifest), &parsed); err != nil {
		return nil, field.Invalid(path, shown(manifest), "is not YAML: "+err.Error())
	}
	object, ok := parsed.(map[string]any)
	if !ok {
		return nil, field.Invalid(path, shown(manifest), "is not one object")
	}
	out, _, err := put(path, object, vars)
	if err != nil {
		return nil, err
	}
	return out.(map[string]any), nil
}

// put returns a value with its variables replaced; left means that its field is left out.
func put(path *field.Path, v any, vars Variables) (out any, left bool, err error) {
	switch v := v.(type) {
	case map[string]any:
		out, err = putMap(path, v, vars)
		return out, false, err
	case []any:
		out, err = putList(path, v, vars)
		return out, false, err
	case string:
		return putText(path, v, vars)
	case float64: // JSON has no other number; whole ones are integers to Kubernetes
		if n := int64(v); float64(n) == v {
			return n, false, nil
		}
	}
	return v, false, nil
}

func putMap(path *field.Path, v map[string]any, vars Variables) (any, error) {
	m := make(map[string]any, len(v))
	for _, key := range slices.Sorted(maps.Keys(v)) {
		if variable.MatchString(key) {
			return nil, field.Invalid(path.Key(key), key, "variables cannot stand in the name of a field")
		}
		item, left, err := put(path.Child(key), v[key], vars)
		if err != nil {
			return nil, err
		}
		if !left {
			m[key] = item
		}
	}
	return m, nil
}

func putList(path *field.Path, v []any, vars Variables) (any, error) {
	list := make([]any, 0, len(v))
	for i := range v {
		item, left, err := put(path.Index(i), v[i], vars)
		if err != nil {
			return nil, err
		}
		if !left {
			list = append(list, item)
		}
	}
	return list, nil
}

func putText(path *field.Path, text string, vars Variables) (out any, left bool, err error) {
	if m := variable.FindStringSubmatch(text); m != nil && m[0] == text && !strings.HasPrefix(text, "$$") {
		value, known := vars[m[1]]
		if !known {
			return nil, false, unknown(path, m[1], vars)
		}
		return value, value == nil, nil
	}
	out = variable.ReplaceAllStringFunc(text, func(ref string) string {
		if strings.HasPrefix(ref, "$$") {
			return ref[1:]
		}
		name := ref[2 : len(ref)-1]
		value, known := vars[name]
		switch value := value.(type) {
		case string:
			return value
		case int64:
			return strconv.FormatInt(value, 10)
		case bool:
			return strconv.FormatBool(value)
		}
		switch {
		case err != nil:
		case !known:
			err = unknown(path, name, vars)
		default:
			err = field.Invalid(path, text, fmt.Sprintf("%s is no text, and can only stand alone", ref))
		}
		return ""
	})
	return out, false, err
}

func unknown(path *field.Path, name string, vars Variables) error {
	return field.NotSupported(path, "${"+name+"}", slices.Sorted(maps.Keys(vars)))
}

// shown is as much of a text as an error can show.
func shown(text string) string {
	const most = 80
	if line, _, more := strings.Cut(text, "\n"); more || len(text) > most {
		return strings.ToValidUTF8(line[:min(len(line), most)], "") + "…"
	}
	return text
}
