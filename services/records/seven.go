// SPDX-License-Identifier: Apache-2.0

package records

import (
	"bytes"
	"fmt"
	"slices"

	tolerantv1 "berth.dev/berth/apis/proto/berth/oaas/v1"
	oaasdeployment "berth.dev/berth/apis/proto/oaas/deployment"
	"berth.dev/berth/services/server"
)

const (
	bindingsField = "deployment_unit.function_bindings"
	nfrField      = "deployment_unit.nfr_requirements"
)

// seven is what field 7 of a unit holds: requirements in the plan's revision, bindings in the latest.
type seven struct {
	nfr      *oaasdeployment.NfrRequirements // nil if there are none; empty ones are there
	bindings []*oaasdeployment.ClassFunctionBinding
}

// The tags that the fields of either message begin with. No tag is in both, so that the first byte identifies the message.
var (
	nfrTags     = []byte{0x08, 0x10, 0x19, 0x21}
	bindingTags = []byte{0x0A, 0x12, 0x1A, 0x20, 0x2A}
)

// decodeSeven reads the elements of field 7. An empty one is an empty NfrRequirements. Requirements in several pieces are
// one message, as protobuf has it.
func decodeSeven(elements [][]byte) (seven, error) {
	var s seven
	var nfr [][]byte
	for i, b := range elements {
		switch {
		case len(b) == 0, slices.Contains(nfrTags, b[0]):
			nfr = append(nfr, b)
		case slices.Contains(bindingTags, b[0]):
			var binding oaasdeployment.ClassFunctionBinding
			if err := within(fmt.Sprintf("%s[%d]", bindingsField, i), server.Decode(b, &binding)); err != nil {
				return seven{}, err
			}
			s.bindings = append(s.bindings, &binding)
		default:
			return seven{}, server.InvalidField(fmt.Sprintf("%s[%d]", bindingsField, i),
				fmt.Sprintf("begins with 0x%02X, as neither a ClassFunctionBinding nor a NfrRequirements does", b[0]))
		}
	}
	switch {
	case len(nfr) == 0:
		return s, nil
	case len(s.bindings) > 0:
		return seven{}, server.InvalidField(bindingsField, "has NfrRequirements beside ClassFunctionBindings: a revision has one or the other")
	}
	s.nfr = &oaasdeployment.NfrRequirements{}
	return s, within(nfrField, server.Decode(bytes.Join(nfr, nil), s.nfr))
}

// within puts a path before the fields of an error.
func within(path string, err error) error {
	if err == nil {
		return nil
	}
	return server.AsError(err).Renamed(func(field string) string {
		if field == "request" {
			return path
		}
		return path + "." + field
	})
}

// revisionIn finds out which revision a unit is of, "" if nothing shows it. What only the plan's has comes first: its clients
// cannot read the other's answers, while the latest clients lose no more than a field of theirs.
func revisionIn(in *tolerantv1.DeploymentUnit, s seven) revision {
	functions := in.GetFunctions()
	old := slices.ContainsFunc(functions, func(f *oaasdeployment.FunctionDeploymentSpec) bool {
		return f.GetReplicas() > 0 || f.GetImage() != ""
	})
	recent := slices.ContainsFunc(functions, func(f *oaasdeployment.FunctionDeploymentSpec) bool {
		return f.Description != nil || f.AvailableLocation != nil || f.NfrRequirements != nil ||
			f.ProvisionConfig != nil || len(f.GetConfig()) > 0
	})
	// The latest revision has this one too, and does not use it.
	unused := slices.ContainsFunc(functions, func(f *oaasdeployment.FunctionDeploymentSpec) bool { return f.ResourceRequirements != nil })
	switch {
	case s.nfr != nil, in.GetTargetCluster() != "", old:
		return revisionPlan
	case len(s.bindings) > 0, in.OdgmConfig != nil, in.SelectedTemplate != nil, in.Telemetry != nil, recent:
		return revisionHead
	case unused:
		return revisionPlan
	}
	return ""
}
