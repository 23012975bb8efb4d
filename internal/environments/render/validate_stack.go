// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	pathpkg "path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
)

// MaxReplicas is how many replicas a component may have.
const MaxReplicas = 1000

// validateDatabase takes what a database has in addition its container.
func validateDatabase(path *field.Path, d *v1alpha1.DatabaseComponent) field.ErrorList {
	var all field.ErrorList
	if p := d.Container.RestartPolicy; p == v1alpha1.RestartNo || p == v1alpha1.RestartOnFailure {
		all = append(all, field.NotSupported(path.Child("container", "restartPolicy"), p,
			[]v1alpha1.EnvironmentRestartPolicy{v1alpha1.RestartAlways, v1alpha1.RestartUnlessStopped}))
	}
	if d.StoragePath != "" {
		all = append(all, validatePath(path.Child("storagePath"), d.StoragePath)...)
	}
	for i := range d.Container.Volumes {
		if v := &d.Container.Volumes[i]; v.Ephemeral && d.PersistentStorage && pathpkg.Clean(v.MountPath) == pathOf(d) {
			all = append(all, field.Invalid(path.Child("container", "volumes").Index(i).Child("ephemeral"), v.Ephemeral,
				"must be false for the volume of the data with persistentStorage"))
		}
	}
	for _, n := range []struct{ name, value string }{{"databaseName", d.DatabaseName}, {"username", d.Username}} {
		if strings.ContainsRune(n.value, 0) {
			all = append(all, field.Invalid(path.Child(n.name), n.value, "must not have a zero byte"))
		}
	}
	return append(all, validateSecret(path.Child("secretRef"), d.SecretRef)...)
}

// ValidateFor returns what is wrong with an environment where the settings of the cluster do not allow it.
func ValidateFor(e *v1alpha1.Environment, s *Settings) *field.Error {
	allowed := append([]v1alpha1.EnvironmentExposure{v1alpha1.ExposureNone, s.Exposure}, s.Exposures...)
	slices.Sort(allowed)
	if is := ExposureOf(e, s.Exposure); !slices.Contains(allowed, is) {
		return field.NotSupported(field.NewPath("spec", "network", "exposure"), is, slices.Compact(allowed))
	}
	return nil
}

func validateNetwork(path *field.Path, n *v1alpha1.EnvironmentNetwork) (all field.ErrorList) {
	if n == nil {
		return nil
	}
	if n.Exposure != "" && !slices.Contains(v1alpha1.EnvironmentExposures, n.Exposure) {
		all = append(all, field.NotSupported(path.Child("exposure"), n.Exposure, v1alpha1.EnvironmentExposures))
	}
	if n.Egress == nil {
		return all
	}
	for i, network := range n.Egress.Networks {
		all = append(all, validation.IsValidCIDR(path.Child("egress", "networks").Index(i), network)...)
	}
	return all
}

func validateSecret(path *field.Path, ref *v1alpha1.EnvironmentSecret) field.ErrorList {
	if ref == nil {
		return nil
	}
	return invalid(path.Child("name"), ref.Name, validation.IsDNS1123Subdomain)
}

func validateReplicas(path *field.Path, n *int32) field.ErrorList {
	return validateNumber(path, n, MaxReplicas)
}

func validatePlacement(path *field.Path, p *v1alpha1.EnvironmentPlacement) field.ErrorList {
	if p == nil {
		return nil
	}
	all := append(validateNumber(path.Child("spotPercent"), p.SpotPercent, 100),
		validateNumber(path.Child("minOnDemand"), p.MinOnDemand, MaxReplicas)...)
	colocations := []v1alpha1.EnvironmentColocation{v1alpha1.ColocationNone, v1alpha1.ColocationSameZone}
	if p.Colocation != "" && !slices.Contains(colocations, p.Colocation) {
		all = append(all, field.NotSupported(path.Child("colocation"), p.Colocation, colocations))
	}
	return append(all, invalid(path.Child("preferredZone"), p.PreferredZone, validation.IsValidLabelValue)...)
}

func validateNumber(path *field.Path, n *int32, most int32) field.ErrorList {
	return validateWithin(path, n, 0, most)
}

func validateWithin(path *field.Path, n *int32, least, most int32) field.ErrorList {
	if n == nil || *n >= least && *n <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *n, fmt.Sprintf("must be from %d to %d", least, most))}
}

// validateClashes refuses names of which two components would make one object: a Service, or the claim of a volume, in which
// one would find the data of the other.
func validateClashes(path *field.Path, spec *v1alpha1.EnvironmentSpec) field.ErrorList {
	var all field.ErrorList
	components := Components(&spec.Stack)
	services := map[string]string{}
	for i := range components {
		services[outside(components[i].Name)] = components[i].Name
	}
	if find(components, Database) != nil {
		services[headless(Database)] = Database
	}
	for i := range spec.Stack.AdditionalServices {
		name := spec.Stack.AdditionalServices[i].Name
		if other := services[name]; other != "" {
			all = append(all, field.Invalid(path.Child("additionalServices").Index(i).Child("name"), name,
				"is the name of a Service of "+other))
		}
	}
	in := &Input{Environment: &v1alpha1.Environment{Spec: *spec}}
	claims := map[string]string{}
	for i := range components {
		c := &components[i]
		for n, v := range in.volumesOf(c) {
			claim := claimOf(c.Name, v.name)
			if other := claims[claim]; other != "" && other != c.Name {
				all = append(all, field.Invalid(containerPath(path, &spec.Stack, c.Name).Child("volumes").Index(n).Child("name"), v.name,
					"has the claim "+claim+", as a volume of "+other+" does"))
			}
			claims[claim] = c.Name
		}
	}
	return all
}
