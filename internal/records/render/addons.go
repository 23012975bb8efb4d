// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
)

// ComponentAddon is the component of what is rendered for an add-on of the template.
const ComponentAddon = "addon"

// Addon is what is rendered of an add-on that the template of a record offers.
type Addon struct {
	// Key is the name of the add-on, Name that of its objects in this record.
	Key, Name string
	template  *v1alpha1.TemplateAddon
	values    Variables
}

// textSuffix is that of the variable with a number or a boolean as text, where Kubernetes requires text.
const textSuffix = "Text"

// parameterName is that of a parameter, as a variable of manifests.
var parameterName = regexp.MustCompile(`^[a-z][A-Za-z0-9]{0,62}$`)

// addonsOf returns the add-ons of a record, except the ODGM.
func addonsOf(record *v1alpha1.DeploymentRecord, t *v1alpha1.DeploymentTemplate) (list []Addon, err error) {
	for _, name := range ptr.Deref(record.Spec.Addons, nil) {
		if name == v1alpha1.AddonODGM {
			continue
		}
		i := slices.IndexFunc(t.Spec.Addons, func(a v1alpha1.TemplateAddon) bool { return a.Name == string(name) })
		if i < 0 {
			path := field.NewPath("spec", "addons").Key(string(name))
			err := fmt.Errorf("template %s: %w", t.Name, field.NotSupported(path, name, offered(t)))
			return nil, &Error{v1alpha1.ReasonUnknownAddon, err}
		}
		a := Addon{Key: string(name), Name: ChildName(record.Name, "-"+string(name)), template: &t.Spec.Addons[i]}
		if a.values, err = valuesOf(record, a.template); err != nil {
			return nil, &Error{v1alpha1.ReasonInvalidAddon, err}
		}
		list = append(list, a)
	}
	return list, nil
}

// offered are the names of the add-ons that a record of a template can have.
func offered(t *v1alpha1.DeploymentTemplate) []string {
	names := []string{string(v1alpha1.AddonODGM)}
	for i := range t.Spec.Addons {
		names = append(names, t.Spec.Addons[i].Name)
	}
	return names
}

// valuesOf returns the parameters of an add-on: those that the record sets, and for the others their defaults. One without either is
// known, and leaves its field out.
func valuesOf(record *v1alpha1.DeploymentRecord, a *v1alpha1.TemplateAddon) (Variables, error) {
	path := field.NewPath("spec", "addonConfigs").Key(a.Name).Child("parameters")
	set := map[string]v1alpha1.ConfigValue{}
	for i := range record.Spec.AddonConfigs {
		if c := &record.Spec.AddonConfigs[i]; c.Name == a.Name {
			set = c.Parameters
		}
	}
	values := Variables{}
	var names []string
	for i := range a.Parameters {
		p := &a.Parameters[i]
		names = append(names, p.Name)
		text, given := set[p.Name]
		switch {
		case given:
		case p.Required:
			return nil, field.Required(path.Key(p.Name), cmp.Or(p.Description, "the add-on has no default for it"))
		case p.Default == nil:
			values[p.Name] = nil
			continue
		default:
			text = *p.Default
		}
		value, err := valueOf(path.Key(p.Name), p, string(text))
		if err != nil {
			return nil, err
		}
		values[p.Name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if _, known := values[name]; !known {
			return nil, field.NotSupported(path, name, names)
		}
	}
	return values, nil
}

// valueOf returns the value of a parameter, of its type.
func valueOf(path *field.Path, p *v1alpha1.AddonParameter, text string) (any, error) {
	if len(p.Enum) > 0 && !slices.Contains(p.Enum, v1alpha1.ConfigValue(text)) {
		return nil, field.NotSupported(path, v1alpha1.ConfigValue(text), p.Enum)
	}
	switch p.Type {
	case v1alpha1.AddonParameterInteger:
		return integerOf(path, p, text)
	case v1alpha1.AddonParameterBoolean:
		if text != "true" && text != "false" {
			return nil, field.NotSupported(path, text, []string{"true", "false"})
		}
		return text == "true", nil
	case v1alpha1.AddonParameterQuantity:
		if _, err := budget.ParseQuantity(text); err != nil {
			return nil, field.Invalid(path, text, "must be a quantity, such as 64Mi or 500m")
		}
	}
	return text, nil
}

func integerOf(path *field.Path, p *v1alpha1.AddonParameter, text string) (any, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return nil, field.Invalid(path, text, "must be an integer")
	case p.Minimum != nil && n < *p.Minimum:
		return nil, field.Invalid(path, text, fmt.Sprintf("must be at least %d", *p.Minimum))
	case p.Maximum != nil && n > *p.Maximum:
		return nil, field.Invalid(path, text, fmt.Sprintf("must be at most %d", *p.Maximum))
	}
	return n, nil
}

// checkAddons returns what is wrong with the parameters that a template declares.
func checkAddons(t *v1alpha1.DeploymentTemplate) error {
	reserved := (&variables{record: leastExample(), template: t}).ofAddon(&Addon{})
	for i := range t.Spec.Addons {
		a := &t.Spec.Addons[i]
		path := field.NewPath("spec", "addons").Key(a.Name)
		if a.Name == string(v1alpha1.AddonODGM) {
			return field.Forbidden(path, "odgm is the add-on of the controller: see spec.odgmManifests")
		}
		variables := maps.Clone(reserved)
		for j := range a.Parameters {
			p, at := &a.Parameters[j], path.Child("parameters").Key(a.Parameters[j].Name)
			for _, name := range []string{p.Name, p.Name + textSuffix} {
				if _, taken := variables[name]; taken {
					return field.Duplicate(at, "${"+name+"}")
				}
				variables[name] = nil
			}
			if !parameterName.MatchString(p.Name) {
				return field.Invalid(at, p.Name, "must be letters and digits that begin with a lower-case letter")
			}
			for _, text := range p.Enum {
				if _, err := valueOf(at.Child("enum"), p, string(text)); err != nil {
					return err
				}
			}
			if p.Default == nil {
				continue
			}
			if _, err := valueOf(at.Child("default"), p, string(*p.Default)); err != nil {
				return err
			}
		}
	}
	return nil
}

// exampleOf returns a value that a parameter may have.
func exampleOf(p *v1alpha1.AddonParameter) v1alpha1.ConfigValue {
	switch {
	case p.Default != nil:
		return *p.Default
	case len(p.Enum) > 0:
		return p.Enum[0]
	case p.Type == v1alpha1.AddonParameterInteger:
		return v1alpha1.ConfigValue(strconv.FormatInt(ptr.Deref(p.Minimum, ptr.Deref(p.Maximum, 1)), 10))
	case p.Type == v1alpha1.AddonParameterBoolean:
		return "true"
	case p.Type == v1alpha1.AddonParameterQuantity:
		return "64Mi"
	}
	return "example"
}

// withAddons gives an example all add-ons of a template, with examples of their parameters.
func withAddons(r *v1alpha1.DeploymentRecord, t *v1alpha1.DeploymentTemplate) *v1alpha1.DeploymentRecord {
	all := []v1alpha1.Addon{v1alpha1.AddonODGM}
	for i := range t.Spec.Addons {
		a := &t.Spec.Addons[i]
		all = append(all, v1alpha1.Addon(a.Name))
		c := v1alpha1.AddonConfig{Name: a.Name, Parameters: map[string]v1alpha1.ConfigValue{}}
		for j := range a.Parameters {
			c.Parameters[a.Parameters[j].Name] = exampleOf(&a.Parameters[j])
		}
		r.Spec.AddonConfigs = append(r.Spec.AddonConfigs, c)
	}
	r.Spec.Addons = &all
	return r
}

// ofAddon returns what the manifests of an add-on can refer to.
func (v *variables) ofAddon(a *Addon) Variables {
	vars := v.common()
	vars["name"], vars["addon"] = a.Name, a.Key
	for name, value := range a.values {
		vars[name] = value
		switch value.(type) {
		case int64, bool:
			vars[name+textSuffix] = fmt.Sprint(value)
		}
	}
	return vars
}

// addonVariable is the environment variable of functions with the name of an add-on's objects, which is that of its Service.
func addonVariable(key string) string {
	return "ADDON_" + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

// renderedAddons returns the add-ons with their workloads.
func renderedAddons(addons []Addon, objects []Object) (list []RenderedAddon) {
	for i := range addons {
		r := RenderedAddon{Key: addons[i].Key}
		for _, o := range objects {
			workload := o.GetKind() == "Deployment" || o.GroupVersionKind().Group == knativeGroup
			if workload && o.GetLabels()[v1alpha1.AddonLabel] == r.Key {
				r.Workloads = append(r.Workloads, o.GetName())
			}
		}
		list = append(list, r)
	}
	return list
}
