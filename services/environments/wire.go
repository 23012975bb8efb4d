// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/environments/validation"
	"berth.dev/berth/services/server"
)

// requested is a specification of a request: what becomes of the spec, and what must not be in there.
type requested struct {
	spec        v1alpha1.EnvironmentSpec
	credentials credentials
}

// fromWire reads a specification. Its errors name fields as the proto does. That a component is missing is none of them: an
// update may leave any out.
func fromWire(in *schedulerv1.EnvironmentSpecification) (*requested, error) {
	if in == nil {
		return nil, server.InvalidField("spec", "is missing")
	}
	var r reader
	out := &requested{spec: v1alpha1.EnvironmentSpec{
		DisplayName: in.GetName(), Description: in.GetDescription(), Labels: server.Texts[v1alpha1.AttributeValue](in.GetLabels()),
	}}
	if n := in.GetNetwork(); n != nil {
		out.spec.Network = &v1alpha1.EnvironmentNetwork{
			Name: n.GetNetworkName(), Subnet: n.GetSubnet(), Gateway: n.GetGateway(), Isolated: n.GetIsolated(),
		}
	}
	if stack := in.GetApplicationStack(); stack != nil {
		out.spec.Stack = r.stack("spec.application_stack", stack)
		out.credentials = r.credentials("spec.application_stack", stack)
	}
	if len(r.violations) > 0 {
		return nil, server.Invalid(r.violations...)
	}
	return out, nil
}

// reader collects what is wrong with a request while it is read.
type reader struct{ violations server.Violations }

func (r *reader) refuse(field, format string, args ...any) {
	if !r.violations.Full() {
		r.violations.Add(field, fmt.Sprintf(format, args...))
	}
}

func (r *reader) stack(path string, in *schedulerv1.ApplicationStack) v1alpha1.ApplicationStack {
	out := v1alpha1.ApplicationStack{Name: in.GetName(), Version: in.GetVersion()}
	if f := in.GetFrontend(); f != nil {
		out.Frontend = &v1alpha1.FrontendComponent{
			Container: r.container(path+".frontend.container", f.GetContainer()), Domains: f.GetDomains(), TLSEnabled: f.GetSslEnabled(),
		}
	}
	if b := in.GetBackend(); b != nil {
		out.Backend = &v1alpha1.BackendComponent{Container: r.container(path+".backend.container", b.GetContainer())}
	}
	if d := in.GetDatabase(); d != nil {
		out.Database = &v1alpha1.DatabaseComponent{
			Container:    r.container(path+".database.container", d.GetContainer()),
			DatabaseName: d.GetDatabaseName(), Username: d.GetUsername(),
			PersistentStorage: d.GetPersistentStorage(), StoragePath: d.GetStoragePath(),
		}
		delete(out.Database.Container.Env, render.PostgresPassword) // one of the credentials
	}
	// A map has no order, and a list that is the same each time does not look like a change.
	for _, name := range slices.Sorted(maps.Keys(in.GetAdditionalServices())) {
		at := fmt.Sprintf("%s.additional_services[%s]", path, name)
		if problem := wrongServiceName(name); problem != "" {
			r.refuse(at, "has the key %q, which %s", name, problem)
		}
		out.AdditionalServices = append(out.AdditionalServices, v1alpha1.AdditionalService{
			Name: name, Container: r.container(at, in.GetAdditionalServices()[name]),
		})
	}
	return out
}

// serviceName is what the name of an additional service looks like, as the CRD has it.
var serviceName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// wrongServiceName returns what is wrong with the name of an additional service, "" if nothing is.
func wrongServiceName(name string) string {
	switch {
	case name == stack.Frontend, name == stack.Backend, name == stack.Database:
		return "is that of a component of its own"
	case len(name) > validation.MaxServiceName:
		return fmt.Sprintf("must have at most %d characters", validation.MaxServiceName)
	case !serviceName.MatchString(name):
		return "must be lower-case letters, digits and '-' that begin with a letter and end with a letter or digit"
	}
	return ""
}
