// SPDX-License-Identifier: Apache-2.0

package records

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	tolerantv1 "berth.dev/berth/apis/proto/berth/oaas/v1"
	oaascommon "berth.dev/berth/apis/proto/oaas/common"
	oaasdeployment "berth.dev/berth/apis/proto/oaas/deployment"
	"berth.dev/berth/test/servertest"
)

func encoded(t require.TestingT, m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	require.NoError(t, err)
	return b
}

// requireInvalid demands that an error is the caller's, and names a field first, if one is given.
func requireInvalid(t require.TestingT, err error, field string) {
	e := servertest.RequireInvalid(t, err)
	if field != "" {
		require.Equal(t, field, e.Violations[0].Field)
	}
}

// Each field of either message, alone, is treated as what it is.
func TestTheFirstTagIdentifiesTheMessage(t *testing.T) {
	for _, n := range []*oaasdeployment.NfrRequirements{
		{MaxLatencyMs: new(uint32(1))}, {MinThroughputRps: new(uint32(0))}, {Availability: new(0.999)}, {CpuUtilizationTarget: new(0.7)}, {},
	} {
		s, err := decodeSeven([][]byte{encoded(t, n)})
		require.NoError(t, err)
		assert.Empty(t, s.bindings)
		assert.True(t, proto.Equal(n, s.nfr), "%v", s.nfr)
	}
	for _, b := range []*oaasdeployment.ClassFunctionBinding{
		{Name: "n"}, {FunctionKey: "f"}, {AccessModifier: new("")}, {Stateless: new(false)}, {Parameters: []string{""}},
	} {
		s, err := decodeSeven([][]byte{encoded(t, b), encoded(t, b)})
		require.NoError(t, err)
		assert.Nil(t, s.nfr)
		require.Len(t, s.bindings, 2)
		assert.True(t, proto.Equal(b, s.bindings[1]), "%v", s.bindings)
	}
	s, err := decodeSeven(nil)
	require.NoError(t, err)
	assert.Equal(t, seven{}, s, "nothing is neither")
}

func TestAnUnknownMessageIsRefusedByName(t *testing.T) {
	known := slices.Concat(nfrTags, bindingTags)
	for first := range 256 {
		if slices.Contains(known, byte(first)) {
			continue
		}
		_, err := decodeSeven([][]byte{{byte(first), 0, 0, 0, 0, 0, 0, 0, 0}})
		requireInvalid(t, err, "deployment_unit.function_bindings[0]")
	}
	nfr := encoded(t, &oaasdeployment.NfrRequirements{Availability: new(0.9)})
	binding := encoded(t, &oaasdeployment.ClassFunctionBinding{Name: "n"})
	for name, tc := range map[string]struct {
		elements [][]byte
		field    string
	}{
		"both":                       {[][]byte{nfr, binding}, "deployment_unit.function_bindings"},
		"a binding and nothing":      {[][]byte{binding, {}}, "deployment_unit.function_bindings"},
		"cut off requirements":       {[][]byte{nfr[:4]}, "deployment_unit.nfr_requirements.availability"},
		"a cut off binding":          {[][]byte{binding, binding[:2]}, "deployment_unit.function_bindings[1].name"},
		"a name that is not UTF-8":   {[][]byte{{0x0A, 1, 0xff}}, "deployment_unit.function_bindings[0].name"},
		"a number that is cut off":   {[][]byte{{0x08, 0xff}}, "deployment_unit.nfr_requirements.max_latency_ms"},
		"a field of a later version": {[][]byte{{0x32, 0}}, "deployment_unit.function_bindings[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decodeSeven(tc.elements)
			requireInvalid(t, err, tc.field)
		})
	}
}

// Protobuf lets a message that occurs once come in pieces.
func TestRequirementsInPiecesAreOne(t *testing.T) {
	s, err := decodeSeven([][]byte{
		encoded(t, &oaasdeployment.NfrRequirements{Availability: new(0.9)}),
		{},
		encoded(t, &oaasdeployment.NfrRequirements{Availability: new(0.99), MaxLatencyMs: new(uint32(5))}),
	})
	require.NoError(t, err)
	assert.InDelta(t, 0.99, s.nfr.GetAvailability(), 0)
	assert.Equal(t, uint32(5), s.nfr.GetMaxLatencyMs())
}

func TestTheFieldsOfAUnitShowItsRevision(t *testing.T) {
	function := func(f *oaasdeployment.FunctionDeploymentSpec) *tolerantv1.DeploymentUnit {
		return &tolerantv1.DeploymentUnit{Functions: []*oaasdeployment.FunctionDeploymentSpec{{FunctionKey: "f"}, f}}
	}
	resources := &oaasdeployment.ResourceRequirements{CpuRequest: "1"}
	for name, tc := range map[string]struct {
		unit *tolerantv1.DeploymentUnit
		want revision
	}{
		"nothing that shows it": {&tolerantv1.DeploymentUnit{
			Id: "i", PackageName: "p", ClassKey: "c", TargetEnv: "e", CreatedAt: &oaascommon.Timestamp{},
			Functions: []*oaasdeployment.FunctionDeploymentSpec{{FunctionKey: "f"}},
		}, ""},
		"empty requirements":    {&tolerantv1.DeploymentUnit{FunctionBindings: [][]byte{{}}}, revisionPlan},
		"bindings":              {&tolerantv1.DeploymentUnit{FunctionBindings: [][]byte{{0x0A, 0}}}, revisionHead},
		"target_cluster":        {&tolerantv1.DeploymentUnit{TargetCluster: "c"}, revisionPlan},
		"replicas":              {function(&oaasdeployment.FunctionDeploymentSpec{Replicas: 2}), revisionPlan},
		"image":                 {function(&oaasdeployment.FunctionDeploymentSpec{Image: "i"}), revisionPlan},
		"resource_requirements": {function(&oaasdeployment.FunctionDeploymentSpec{ResourceRequirements: resources}), revisionPlan},
		"resource_requirements, which the latest has too": {
			function(&oaasdeployment.FunctionDeploymentSpec{ResourceRequirements: resources, Description: new("")}), revisionHead,
		},
		"odgm_config":       {&tolerantv1.DeploymentUnit{OdgmConfig: &oaasdeployment.OdgmConfig{}}, revisionHead},
		"selected_template": {&tolerantv1.DeploymentUnit{SelectedTemplate: new("")}, revisionHead},
		"telemetry":         {&tolerantv1.DeploymentUnit{Telemetry: &oaasdeployment.TelemetrySpec{}}, revisionHead},
		"provision_config":  {function(&oaasdeployment.FunctionDeploymentSpec{ProvisionConfig: &oaasdeployment.ProvisionConfig{}}), revisionHead},
		"config":            {function(&oaasdeployment.FunctionDeploymentSpec{Config: map[string]string{"a": "b"}}), revisionHead},
		"nfr of a function": {function(&oaasdeployment.FunctionDeploymentSpec{NfrRequirements: &oaasdeployment.NfrRequirements{}}), revisionHead},
		"a revision between the two": {
			function(&oaasdeployment.FunctionDeploymentSpec{Image: "i", ProvisionConfig: &oaasdeployment.ProvisionConfig{}}), revisionPlan,
		},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := fromWire(tc.unit)
			require.NoError(t, err)
			assert.Equal(t, tc.want, u.revision)
		})
	}
}

func FuzzSeven(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add([]byte{0x08, 0x64, 0x21, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f}, []byte{})
	f.Add([]byte{0x0A, 1, 'a', 0x20, 1}, []byte{0x12, 1, 'b', 0x2A, 1, 'c'})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		for _, elements := range [][][]byte{{a}, {a, b}} {
			s, err := decodeSeven(elements)
			if err != nil {
				requireInvalid(t, err, "")
				continue
			}
			require.False(t, s.nfr != nil && len(s.bindings) > 0, "one or the other")
			if s.nfr == nil {
				require.Len(t, s.bindings, len(elements))
				continue
			}
			again, err := decodeSeven([][]byte{encoded(t, s.nfr)})
			require.NoError(t, err)
			require.Equal(t, encoded(t, s.nfr), encoded(t, again.nfr))
		}
	})
}
