// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The controllers of berth-controller, by their names in the field controllers and the flag --controllers.
const (
	ControllerMix          = "mix"
	ControllerLimits       = "limits"
	ControllerPolicies     = "policies"
	ControllerRecords      = "records"
	ControllerEnvironments = "environments"
)

// allByDefault selects the controllers that run by default, as in kube-controller-manager.
const allByDefault = "*"

// programName is the name of the lease of a process that runs the controller mix.
const programName = "berth-controller"

var (
	knownControllers = []string{ControllerMix, ControllerLimits, ControllerPolicies, ControllerRecords, ControllerEnvironments}
	// offByDefault require permissions that berth-controller does not have by default.
	offByDefault = []string{ControllerRecords, ControllerEnvironments}
)

// KnownControllers returns the names of all controllers, and of those that do not run by default.
func KnownControllers() (all, off []string) {
	return slices.Clone(knownControllers), slices.Clone(offByDefault)
}

// Runs reports whether a controller runs. Its name in the list takes precedence over "*".
func (c *Configuration) Runs(name string) bool {
	switch {
	case slices.Contains(c.Controllers, name):
		return true
	case slices.Contains(c.Controllers, "-"+name):
		return false
	}
	return slices.Contains(c.Controllers, allByDefault) && !slices.Contains(offByDefault, name)
}

// LeaseName returns the name of the lease. Processes that run different controllers must not share one, because only
// one of them would be active.
func (c *Configuration) LeaseName() string {
	if c.LeaderElection.Name != "" {
		return c.LeaderElection.Name
	}
	if c.Runs(ControllerMix) {
		return programName
	}
	if c.ServesOnly() {
		return "berth-services"
	}
	running := slices.DeleteFunc(slices.Clone(knownControllers), func(name string) bool { return !c.Runs(name) })
	return "berth-" + strings.Join(running, "-")
}

// ServesOnly reports whether no controller runs, because the list is empty: only the services are there.
func (c *Configuration) ServesOnly() bool { return len(c.Controllers) == 0 }

func validateControllers(path *field.Path, controllers []string, services bool) field.ErrorList {
	var all field.ErrorList
	seen := map[string]bool{}
	for i, entry := range controllers {
		name := strings.TrimPrefix(entry, "-")
		switch {
		case entry != allByDefault && !slices.Contains(knownControllers, name):
			all = append(all, field.NotSupported(path.Index(i), entry, append([]string{allByDefault}, knownControllers...)))
		case seen[name]:
			all = append(all, field.Duplicate(path.Index(i), entry))
		}
		seen[name] = true
	}
	c := Configuration{Controllers: controllers}
	switch {
	case len(all) > 0 || slices.ContainsFunc(knownControllers, c.Runs):
	case !c.ServesOnly():
		all = append(all, field.Invalid(path, strings.Join(controllers, ","), "must leave at least one controller"))
	case !services:
		all = append(all, field.Required(path, "may be empty only with services.bindAddress"))
	}
	return all
}
