// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/v1alpha1"
	internal "berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
	"berth.dev/berth/internal/environments/validation"
	"berth.dev/berth/services/server"
)

const (
	// maxName is how long an environment's name may be, in characters.
	maxName = 63
	// maxID is how long an id is at most.
	maxID = 52
)

// idOf is the id of a new environment.
func idOf(namespace, name string) (string, error) {
	n := utf8.RuneCountInString(name)
	switch {
	case name == "":
		return "", server.InvalidField("spec.name", "is missing")
	case n > maxName:
		return "", server.InvalidField("spec.name", fmt.Sprintf("has %d characters, and may have %d", n, maxName))
	case strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }), strings.TrimSpace(name) != name:
		return "", server.InvalidField("spec.name", fmt.Sprintf("is %q, and must have no control characters, and no spaces around it", name))
	case !strings.ContainsFunc(name, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }):
		return "", server.InvalidField("spec.name", fmt.Sprintf("is %q, and must have a letter or a digit", name))
	}
	id := internal.ID(namespace, name)
	if len(id) > maxID || len(utilvalidation.IsDNS1123Label(id)) > 0 {
		return "", server.InvalidField("spec.name", fmt.Sprintf("is %q, and its id %q must be a DNS label of at most %d characters", name, id, maxID))
	}
	return id, nil
}

// check returns what is wrong with a spec as a whole. Fields have the names of the proto.
func check(spec *v1alpha1.EnvironmentSpec) error {
	if !hasComponent(&spec.Stack) {
		var names []string
		for _, s := range internal.Stacks() {
			names = append(names, s.Name)
		}
		return server.InvalidField("spec.application_stack", fmt.Sprintf(
			"has no component, and its name %q is not one of the known stacks: %s", spec.Stack.Name, strings.Join(names,
				", ")))
	}
	var violations []server.Violation
	name := wireField(spec)
	for _, problem := range validation.Spec(spec) {
		violations = append(violations, server.Violation{Field: name(problem.Field), Description: problem.ErrorBody()})
	}
	if len(violations) > 0 {
		return server.Invalid(violations...)
	}
	return nil
}

func hasComponent(s *v1alpha1.ApplicationStack) bool {
	return s.Frontend != nil || s.Backend != nil || s.Database != nil || len(s.AdditionalServices) > 0
}

// explicit calls yield for each port from outside that a spec requests by its number, with the place of the container.
func explicit(spec *v1alpha1.EnvironmentSpec, yield func(at *field.Path, port stack.PortKey)) {
	path := field.NewPath("spec", "stack")
	each := func(at *field.Path, c *v1alpha1.EnvironmentContainer) {
		for i, p := range c.Ports {
			if p.HostPort != 0 {
				yield(at.Child("container", "ports").Index(i).Child("hostPort"), portKey(p.HostPort, p.Protocol))
			}
		}
	}
	if f := spec.Stack.Frontend; f != nil {
		each(path.Child(stack.Frontend), &f.Container)
	}
	if b := spec.Stack.Backend; b != nil {
		each(path.Child(stack.Backend), &b.Container)
	}
	if d := spec.Stack.Database; d != nil {
		each(path.Child(stack.Database), &d.Container)
	}
	for i := range spec.Stack.AdditionalServices {
		each(path.Child("additionalServices").Index(i), &spec.Stack.AdditionalServices[i].Container)
	}
}

func portKey(number int32, protocol v1alpha1.EnvironmentProtocol) stack.PortKey {
	return stack.PortKey{Number: number, Protocol: cmp.Or(protocol, v1alpha1.ProtocolTCP)}
}

// taken refuses ports from outside that other environments have. Only those of the same namespace are named: the caller may
// not be able to read the others.
func taken(e *environment, others []*environment) error {
	holders := map[stack.PortKey]*environment{}
	for _, o := range others {
		for _, p := range stack.HostPorts(o) {
			holders[portKey(p.HostPort, p.Protocol)] = o
		}
	}
	var held []server.Violation
	explicit(&e.Spec, func(at *field.Path, port stack.PortKey) {
		holder := holders[port]
		if holder == nil {
			return
		}
		description := fmt.Sprintf("port %d is already allocated", port.Number)
		if holder.Namespace == e.Namespace {
			description += fmt.Sprintf(" to environment %q", holder.Name)
		}
		held = append(held, server.Violation{Field: wireField(&e.Spec)(at.String()), Description: description})
	})
	if len(held) == 0 {
		return nil
	}
	refused := server.Invalid(held...)
	refused.Code = codes.AlreadyExists
	return refused
}

// requestsHostPorts reports whether a spec has a host port.
func requestsHostPorts(spec *v1alpha1.EnvironmentSpec) bool {
	return len(stack.HostPorts(&environment{Spec: *spec})) > 0
}
