// SPDX-License-Identifier: Apache-2.0

package records

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	tolerantv1 "berth.dev/berth/apis/proto/berth/oaas/v1"
	oaascommon "berth.dev/berth/apis/proto/oaas/common"
	oaasdeployment "berth.dev/berth/apis/proto/oaas/deployment"
	"berth.dev/berth/services/server"
	"berth.dev/berth/test/servertest"
)

// The tolerant messages are the published ones but for 7, and what the two revisions have apart in answers.
func TestTheTolerantMessagesAreThePublishedOnes(t *testing.T) {
	for tolerant, published := range map[proto.Message]proto.Message{
		&tolerantv1.DeployRequest{}:                 &oaasdeployment.DeployRequest{},
		&tolerantv1.DeploymentUnit{}:                &oaasdeployment.DeploymentUnit{},
		&tolerantv1.GetDeploymentStatusResponse{}:   &oaasdeployment.GetDeploymentStatusResponse{},
		&tolerantv1.ListDeploymentRecordsResponse{}: &oaasdeployment.ListDeploymentRecordsResponse{},
		&tolerantv1.GetDeploymentRecordResponse{}:   &oaasdeployment.GetDeploymentRecordResponse{},
	} {
		assert.Equal(t, shape(published), shape(tolerant), "%T", published)
	}
	in := shape(&oaasdeployment.DeploymentUnit{})
	for number, s := range shape(&tolerantv1.Deployment{}) {
		if number != 4 {
			assert.Equal(t, in[number], strings.Replace(s, "head_target_env", "target_env", 1))
		}
	}
}

func shape(m proto.Message) map[protoreflect.FieldNumber]string {
	out := map[protoreflect.FieldNumber]string{}
	fields := m.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		out[f.Number()] = fmt.Sprintf("%s %s %s optional=%t", f.Name(), f.Kind(), f.Cardinality(), f.HasOptionalKeyword())
		if f.Name() == "function_bindings" {
			out[f.Number()] = string(f.Name())
		}
	}
	return out
}

// read is what the server does with a unit that a client of a revision sent.
func read(t require.TestingT, sent proto.Message) *unit {
	var got tolerantv1.DeploymentUnit
	require.NoError(t, server.Decode(encoded(t, sent), &got))
	u, err := fromWire(&got)
	require.NoError(t, err)
	return u
}

// The spec keeps whatever a unit of the latest revision has: nothing is lost, doubles neither.
func TestASpecKeepsAllFieldsOfAUnit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := drawn(t, &oaasdeployment.DeploymentUnit{})
		u := read(t, sent)
		require.Empty(t, diff(sent, unitOf(&u.spec)))
		b, err := json.Marshal(u.spec)
		require.NoError(t, err)
		require.NotRegexp(t, `":null[,}]`, string(b), "the API server takes null for no list")
	})
}

// The plan's units have the same under other numbers.
func TestASpecKeepsAllFieldsOfAUnitOfThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nfr := drawn(t, &oaasdeployment.NfrRequirements{})
		sent := &tolerantv1.DeploymentUnit{
			Id: "x", TargetCluster: text.Draw(t, "cluster"), TargetEnv: text.Draw(t, "env"), FunctionBindings: [][]byte{encoded(t, nfr)},
			Functions: []*oaasdeployment.FunctionDeploymentSpec{{
				FunctionKey: "f", Replicas: rapid.Uint32Range(0, math.MaxInt32).Draw(t, "replicas"), Image: text.Draw(t, "image"),
				ResourceRequirements: &oaasdeployment.ResourceRequirements{
					CpuRequest: requested.Draw(t, "cpu"), MemoryRequest: requested.Draw(t, "memory"), CpuLimit: new("1k"),
				},
			}},
		}
		u := read(t, sent)
		require.Equal(t, revisionPlan, u.revision)
		got, want := &u.spec.DeploymentUnit.Functions[0], sent.Functions[0]
		require.Equal(t, sent.TargetCluster, u.spec.DeploymentUnit.TargetCluster)
		require.Equal(t, sent.TargetEnv, u.spec.TargetEnvironment)
		require.Equal(t, want.Image, got.Image)
		require.Equal(t, want.Replicas > 0, got.MinScale != nil)
		if got.MinScale != nil {
			require.EqualValues(t, want.Replicas, *got.MinScale)
		}
		require.Equal(t, want.ResourceRequirements.CpuRequest, got.Resources.CPU)
		require.Equal(t, want.ResourceRequirements.MemoryRequest, got.Resources.Memory)
		require.Equal(t, "1k", got.Resources.CPULimit)
		back := nfrOf(u.spec.NFRRequirements)
		if back == nil {
			back = &oaasdeployment.NfrRequirements{}
		}
		require.Empty(t, diff(nfr, back))
	})
}

// A retry is nothing new, whatever the unit has and however often, after the API server has had the record.
func TestAUnitThatIsDeployedAgainChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := drawn(t, &oaasdeployment.DeploymentUnit{})
		r := newRecord("ns", "x", read(t, sent))
		r.mark(t.Context(), read(t, sent))
		r = stored(t, r)
		sent.CreatedAt = &oaascommon.Timestamp{Seconds: rapid.Int64Range(0, 1<<31).Draw(t, "recreated")}
		if r.Spec.DeploymentUnit.CreatedAt == nil {
			sent.CreatedAt = nil
		}
		require.False(t, r.replace(read(t, sent)))
		sent.ClassKey += "2"
		require.True(t, r.replace(read(t, sent)))
		require.Equal(t, sent.ClassKey, r.Spec.DeploymentUnit.ClassKey)
		require.False(t, stored(t, r).replace(read(t, sent)))
	})
}

// stored is a record as it is read back.
func stored(t require.TestingT, r *draft) *draft {
	b, err := json.Marshal(&r.record)
	require.NoError(t, err)
	out := &draft{}
	require.NoError(t, json.Unmarshal(b, &out.record))
	return out
}

func TestWhatASpecCannotHoldIsRefusedByName(t *testing.T) {
	const big = math.MaxInt32 + 1
	function := func(f *oaasdeployment.FunctionDeploymentSpec) *tolerantv1.DeploymentUnit {
		return &tolerantv1.DeploymentUnit{Functions: []*oaasdeployment.FunctionDeploymentSpec{f}}
	}
	provision := func(p *oaasdeployment.ProvisionConfig) *tolerantv1.DeploymentUnit {
		return function(&oaasdeployment.FunctionDeploymentSpec{ProvisionConfig: p})
	}
	for field, u := range map[string]*tolerantv1.DeploymentUnit{
		"deployment_unit":           nil,
		"deployment_unit.functions": {Functions: make([]*oaasdeployment.FunctionDeploymentSpec, maxFunctions+1)},
		"deployment_unit.nfr_requirements.min_throughput_rps": {
			FunctionBindings: [][]byte{encoded(t, &oaasdeployment.NfrRequirements{MinThroughputRps: new(uint32(big))})},
		},
		"deployment_unit.created_at.seconds":                            {CreatedAt: &oaascommon.Timestamp{Seconds: math.MaxInt64}},
		"deployment_unit.created_at.nanos":                              {CreatedAt: &oaascommon.Timestamp{Nanos: -1}},
		"deployment_unit.functions[0].replicas":                         function(&oaasdeployment.FunctionDeploymentSpec{Replicas: big}),
		"deployment_unit.functions[0].provision_config.port":            provision(&oaasdeployment.ProvisionConfig{Port: new(uint32(0))}),
		"deployment_unit.functions[0].provision_config.min_scale":       provision(&oaasdeployment.ProvisionConfig{MinScale: new(uint32(big))}),
		"deployment_unit.functions[0].provision_config.max_concurrency": provision(&oaasdeployment.ProvisionConfig{MaxConcurrency: big}),
	} {
		_, err := fromWire(u)
		requireInvalid(t, err, field)
	}
}

// Where both revisions set a field, the latest one applies.
func TestTheLatestRevisionComesFirst(t *testing.T) {
	u := read(t, &oaasdeployment.DeploymentUnit{Functions: []*oaasdeployment.FunctionDeploymentSpec{{
		FunctionKey: "f", Replicas: 3, Image: "old",
		ResourceRequirements: &oaasdeployment.ResourceRequirements{CpuRequest: "1", MemoryRequest: "1Gi"},
		ProvisionConfig:      &oaasdeployment.ProvisionConfig{ContainerImage: new("new"), MinScale: new(uint32(0)), CpuRequest: new("2")},
	}}})
	f := u.spec.DeploymentUnit.Functions[0]
	assert.Equal(t, "new", f.Image)
	assert.Zero(t, *f.MinScale)
	assert.Equal(t, "2", f.Resources.CPU)
	assert.Equal(t, "1Gi", f.Resources.Memory)
}

func TestSharesAreWrittenWithoutLoss(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 1: "1", 0.999: "0.999", 0.30000000000000004: "0.30000000000000004", 1e-7: "0.0000001", math.Copysign(0, -1): "0", 2: "2", -0.5: "-0.5"} {
		assert.Equal(t, want, decimal(f))
	}
}

func FuzzUnits(f *testing.F) {
	f.Add([]byte{})
	f.Add(encoded(f, &oaasdeployment.DeployRequest{DeploymentUnit: &oaasdeployment.DeploymentUnit{
		Id: "My_Deployment.ID@Prod", Functions: []*oaasdeployment.FunctionDeploymentSpec{{FunctionKey: "f", Config: map[string]string{"a": "b"}}},
		FunctionBindings: []*oaasdeployment.ClassFunctionBinding{{Name: "n"}}, CreatedAt: &oaascommon.Timestamp{Seconds: 1},
		OdgmConfig: &oaasdeployment.OdgmConfig{EnvNodeIds: map[string]*oaasdeployment.OdgmNodeIds{"e": {}}},
	}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var req tolerantv1.DeployRequest
		if err := server.Decode(b, &req); err != nil {
			requireInvalid(t, err, "")
			return
		}
		u, err := fromWire(req.GetDeploymentUnit())
		if err != nil {
			requireInvalid(t, err, "")
			return
		}
		if name, err := nameOf("deployment_unit.id", u.id()); err != nil {
			requireInvalid(t, err, "deployment_unit.id")
		} else {
			require.Regexp(t, `^[a-z0-9]([a-z0-9-]{0,251}[a-z0-9])?$`, name)
		}
		require.False(t, stored(t, newRecord("ns", "x", u)).replace(&unit{spec: u.spec}), "a retry is nothing new")
	})
}

// What the API server refuses for every pod of a function is refused with the field of the request.
func TestAFunctionThatNoPodCanRunIsRefused(t *testing.T) {
	provision := func(p *oaasdeployment.ProvisionConfig) *oaasdeployment.FunctionDeploymentSpec {
		return &oaasdeployment.FunctionDeploymentSpec{FunctionKey: "f", ProvisionConfig: p}
	}
	old := &oaasdeployment.ResourceRequirements{CpuRequest: "2", CpuLimit: new("1500m")}
	for field, f := range map[string]*oaasdeployment.FunctionDeploymentSpec{
		"provision_config.cpu_request":      provision(&oaasdeployment.ProvisionConfig{CpuRequest: new("2"), CpuLimit: new("1")}),
		"provision_config.memory_request":   provision(&oaasdeployment.ProvisionConfig{MemoryRequest: new("2Gi"), MemoryLimit: new("2G")}),
		"resource_requirements.cpu_request": {FunctionKey: "f", ResourceRequirements: old},
		// To parse or to compare one of these takes longer than a call may: without the budget the test times out.
		"provision_config.cpu_limit":    provision(&oaasdeployment.ProvisionConfig{CpuRequest: new("1"), CpuLimit: new("9e2147483647")}),
		"provision_config.memory_limit": provision(&oaasdeployment.ProvisionConfig{MemoryLimit: new(strings.Repeat("9", 1<<20))}),
		"resource_requirements.memory_request": {FunctionKey: "f", ResourceRequirements: &oaasdeployment.ResourceRequirements{
			MemoryRequest: "99999999999999999999e2147483647", MemoryLimit: new("1Gi"),
		}},
		"resource_requirements.cpu_limit": {FunctionKey: "f", ResourceRequirements: &oaasdeployment.ResourceRequirements{CpuLimit: new("x")}},
		"config[]":                        {FunctionKey: "f", Config: map[string]string{"": "x"}},
		"config[a=b]":                     {FunctionKey: "f", Config: map[string]string{"a=b": "x"}},
	} {
		_, err := fromWire(tolerant(t, &oaasdeployment.DeploymentUnit{Id: "x", Functions: []*oaasdeployment.FunctionDeploymentSpec{f}}))
		e := servertest.RequireInvalid(t, err)
		require.Len(t, e.Violations, 1, field)
		assert.Equal(t, "deployment_unit.functions[0]."+field, e.Violations[0].Field)
		assert.Less(t, len(e.Message), 1024, field)
	}
	for _, p := range []*oaasdeployment.ProvisionConfig{
		{CpuRequest: new("1000m"), CpuLimit: new("1")}, {CpuRequest: new("1")}, {CpuLimit: new("1")},
	} {
		_, err := fromWire(tolerant(t, &oaasdeployment.DeploymentUnit{Id: "x", Functions: []*oaasdeployment.FunctionDeploymentSpec{provision(p)}}))
		require.NoError(t, err, "%v", p)
	}
}

// tolerant is a message as it is read.
func tolerant(t *testing.T, u *oaasdeployment.DeploymentUnit) *tolerantv1.DeploymentUnit {
	t.Helper()
	b, err := proto.Marshal(u)
	require.NoError(t, err)
	out := &tolerantv1.DeploymentUnit{}
	require.NoError(t, proto.Unmarshal(b, out))
	return out
}
