// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/environments/render"
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
	id := render.ID(namespace, name)
	if len(id) > maxID || len(utilvalidation.IsDNS1123Label(id)) > 0 {
		return "", server.InvalidField("spec.name", fmt.Sprintf("is %q, and its id %q must be a DNS label of at most %d characters", name, id, maxID))
	}
	return id, nil
}

// check returns what is wrong with a spec as a whole. Fields have the names of the proto.
func check(spec *v1alpha1.EnvironmentSpec) error {
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

// check refuses a spec that is wrong, or cannot be run as things are now. requested is the part of the spec that the request itself sets.
func (c *service) check(ctx context.Context, e *environment, requested *v1alpha1.EnvironmentSpec) error {
	if err := check(&e.Spec); err != nil {
		return err
	}
	// A host port is one of each node, and not of the cluster.
	if stack.ExposureOf(e, c.exposure) == v1alpha1.ExposureHostPort || len(stack.HostPorts(&environment{Spec: *requested})) == 0 {
		return nil
	}
	others, err := c.store.list(ctx, "", func(o *environment) bool { return o.Namespace != e.Namespace || o.Name != e.Name })
	if err != nil {
		return err
	}
	return taken(e, others)
}

// taken refuses ports from outside that other environments have. Only those of the same namespace are named: the caller may
// not be able to read the others.
func taken(e *environment, others []*environment) error {
	holders := map[stack.PortKey]*environment{}
	for _, o := range others {
		for _, p := range stack.HostPorts(o) {
			holders[stack.PortKey{Number: p.HostPort, Protocol: cmp.Or(p.Protocol, v1alpha1.ProtocolTCP)}] = o
		}
	}
	var held []server.Violation
	name := wireField(&e.Spec)
	for _, c := range stack.Components(&e.Spec.Stack) {
		for i := range c.Container.Ports {
			p := &c.Container.Ports[i]
			holder := holders[stack.PortKey{Number: p.HostPort, Protocol: stack.ProtocolOf(p)}]
			if p.HostPort == 0 || holder == nil {
				continue
			}
			description := fmt.Sprintf("port %d is already allocated", p.HostPort)
			if holder.Namespace == e.Namespace {
				description += fmt.Sprintf(" to environment %q", holder.Name)
			}
			at := c.Path.Child("container", "ports").Index(i).Child("hostPort")
			held = append(held, server.Violation{Field: name(at.String()), Description: description})
		}
	}
	if len(held) == 0 {
		return nil
	}
	refused := server.Invalid(held...)
	refused.Code = codes.AlreadyExists
	return refused
}
