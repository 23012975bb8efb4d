// SPDX-License-Identifier: Apache-2.0

package records

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	oaascommon "berth.dev/berth/apis/proto/oaas/common"
	oaasdeployment "berth.dev/berth/apis/proto/oaas/deployment"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/services/server"
)

func diff(want, got proto.Message) string { return cmp.Diff(want, got, protocmp.Transform()) }

// requested and limit are quantities, of which no limit is below a request.
var (
	requested = rapid.StringMatching(`[1-9][0-9]{0,5}m`)
	limit     = rapid.StringMatching(`[1-9][0-9]{3,8}(k|Mi|Gi)?`)
)

var text = rapid.StringMatching(`[a-zA-Z0-9 ./:äß-]{1,12}`)

// Fields that are not drawn: what a unit of the plan's revision has instead of others, and what a time loses.
var notDrawn = []protoreflect.FullName{
	"oaas.deployment.DeploymentUnit.target_cluster", "oaas.deployment.FunctionDeploymentSpec.replicas",
	"oaas.deployment.FunctionDeploymentSpec.resource_requirements", "oaas.deployment.FunctionDeploymentSpec.image",
	"oaas.common.Timestamp.nanos",
}

// drawn is a message of the latest revision with fields at random. What means the same written in two ways is written in one: no
// empty texts where a field may be absent, no empty requirements, and always a ProvisionConfig.
func drawn[M proto.Message](t *rapid.T, message M) M {
	m := message.ProtoReflect()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		name := string(f.FullName())
		switch {
		case slices.Contains(notDrawn, f.FullName()), f.HasPresence() && f.Name() != "provision_config" && !rapid.Bool().Draw(t, name+" given"):
		case f.IsMap():
			for range rapid.IntRange(0, 2).Draw(t, name+" entries") {
				names := text
				if f.Name() == "config" { // variables of a pod
					names = rapid.StringMatching(`[A-Z._-][A-Z0-9._-]{0,8}`)
				}
				key := protoreflect.ValueOfString(names.Draw(t, name+" key")).MapKey()
				m.Mutable(f).Map().Set(key, drawValue(t, f.MapValue(), m.Mutable(f).Map().NewValue))
			}
		case f.IsList():
			for range rapid.IntRange(0, 3).Draw(t, name+" elements") {
				m.Mutable(f).List().Append(drawValue(t, f, m.Mutable(f).List().NewElement))
			}
		default:
			m.Set(f, drawValue(t, f, func() protoreflect.Value { return m.NewField(f) }))
			if f.Name() == "nfr_requirements" && proto.Size(m.Get(f).Message().Interface()) == 0 {
				m.Clear(f)
			}
		}
	}
	return message
}

// drawValue draws a value of a field, an element of a list, or a value of a map.
func drawValue(t *rapid.T, f protoreflect.FieldDescriptor, newMessage func() protoreflect.Value) protoreflect.Value {
	name := string(f.FullName())
	switch f.Kind() {
	case protoreflect.StringKind:
		switch {
		case strings.HasSuffix(name, "_request"):
			return protoreflect.ValueOfString(requested.Draw(t, name))
		case strings.HasSuffix(name, "_limit"):
			return protoreflect.ValueOfString(limit.Draw(t, name))
		}
		return protoreflect.ValueOfString(text.Draw(t, name))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, name))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.Float64Range(0, 1).Draw(t, name))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(rapid.Uint64().Draw(t, name))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64Range(firstSecond, lastSecond).Draw(t, name))
	case protoreflect.Uint32Kind:
		if f.Name() == "port" {
			return protoreflect.ValueOfUint32(rapid.Uint32Range(1, 65535).Draw(t, name))
		}
		return protoreflect.ValueOfUint32(rapid.Uint32Range(0, math.MaxInt32).Draw(t, name))
	}
	value := newMessage()
	drawn(t, value.Message().Interface())
	return value
}

// unitOf writes a spec as a unit of the latest revision: it undoes fromWire, by itself.
func unitOf(s *v1alpha1.DeploymentRecordSpec) *oaasdeployment.DeploymentUnit {
	u := &s.DeploymentUnit
	out := &oaasdeployment.DeploymentUnit{
		Id: u.ID, PackageName: u.PackageName, ClassKey: u.ClassKey, TargetEnv: s.TargetEnvironment, SelectedTemplate: optional(s.TemplateHint),
	}
	if u.CreatedAt != nil {
		out.CreatedAt = &oaascommon.Timestamp{Seconds: u.CreatedAt.Unix()}
	}
	for i := range u.Functions {
		f := &u.Functions[i]
		p := &oaasdeployment.ProvisionConfig{
			ContainerImage: optional(f.Image), MaxConcurrency: uint32(f.MaxConcurrency), NeedHttp2: f.HTTP2, MinScale: natural(f.MinScale),
			MaxScale: natural(f.MaxScale), WasmModuleUrl: optional(f.WASMModuleURL),
		}
		if f.Port != 0 {
			p.Port = natural(&f.Port)
		}
		if r := f.Resources; r != nil {
			p.CpuRequest, p.MemoryRequest, p.CpuLimit, p.MemoryLimit = optional(r.CPU), optional(r.Memory), optional(r.CPULimit), optional(r.MemoryLimit)
		}
		g := &oaasdeployment.FunctionDeploymentSpec{
			FunctionKey: f.FunctionKey, Description: optional(f.Description), AvailableLocation: optional(f.AvailableLocation),
			NfrRequirements: nfrOf(f.NFRRequirements), ProvisionConfig: p, Config: server.Texts[string](f.Config),
		}
		out.Functions = append(out.Functions, g)
	}
	for _, b := range u.FunctionBindings {
		out.FunctionBindings = append(out.FunctionBindings, &oaasdeployment.ClassFunctionBinding{
			Name: b.Name, FunctionKey: b.FunctionKey, AccessModifier: optional(b.AccessModifier), Stateless: b.Stateless, Parameters: b.Parameters,
		})
	}
	if t := s.Telemetry; t != nil {
		out.Telemetry = &oaasdeployment.TelemetrySpec{
			Enabled: t.Enabled, Traces: t.Traces, Metrics: t.Metrics, Logs: t.Logs, ServiceName: optional(t.ServiceName),
			ResourceAttributes: server.Texts[string](t.ResourceAttributes), SamplingRate: double(optional(t.SamplingRate)),
		}
	}
	if c := s.ODGMConfig; c != nil {
		out.OdgmConfig = odgmOf(c)
	}
	return out
}

func odgmOf(c *v1alpha1.ODGMConfig) *oaasdeployment.OdgmConfig {
	out := &oaasdeployment.OdgmConfig{
		Collections: c.Collections, PartitionCount: natural(c.PartitionCount), ReplicaCount: natural(c.ReplicaCount),
		ShardType: optional(c.ShardType), Options: server.Texts[string](c.Options), Log: optional(c.Log), OdgmNodeId: node(c.NodeID),
		EnvNodeIds:            map[string]*oaasdeployment.OdgmNodeIds{},
		CollectionAssignments: map[string]*oaasdeployment.CollectionShardAssignments{},
	}
	if in := c.Invocations; in != nil {
		out.Invocations = &oaasdeployment.InvocationRoutes{DisabledFn: in.Disabled, FnRoutes: map[string]*oaasdeployment.FunctionRoute{}}
		for name, r := range in.Routes {
			out.Invocations.FnRoutes[name] = &oaasdeployment.FunctionRoute{
				Url: r.URL, Stateless: r.Stateless, Standby: r.Standby, ActiveGroup: nodes(r.ActiveGroup), FunctionKey: optional(r.FunctionKey),
			}
		}
	}
	for env, list := range c.NodeIDs {
		out.EnvNodeIds[env] = &oaasdeployment.OdgmNodeIds{Ids: nodes(list)}
	}
	for name, list := range c.Assignments {
		a := &oaasdeployment.CollectionShardAssignments{}
		for _, s := range list {
			a.Assignments = append(a.Assignments, &oaasdeployment.ShardAssignmentSpec{
				Primary: node(s.Primary), Replica: nodes(s.Replica), ShardIds: nodes(s.ShardIDs),
			})
		}
		out.CollectionAssignments[name] = a
	}
	return out
}

func nfrOf(n *v1alpha1.NFRRequirements) *oaasdeployment.NfrRequirements {
	if n == nil {
		return nil
	}
	return &oaasdeployment.NfrRequirements{
		MaxLatencyMs: natural(n.MaxLatencyMS), MinThroughputRps: natural(n.MinThroughputRPS),
		Availability: double(n.Availability), CpuUtilizationTarget: double(n.CPUUtilizationTarget),
	}
}

func double(text *string) *float64 {
	if text == nil {
		return nil
	}
	f, err := strconv.ParseFloat(*text, 64)
	if err != nil {
		panic(err)
	}
	return &f
}

func natural(n *int32) *uint32 { return cast[uint32](n) }

func node(id *v1alpha1.NodeID) *uint64 {
	if id == nil {
		return nil
	}
	return new(number(*id))
}

func number(id v1alpha1.NodeID) uint64 {
	n, err := id.Number()
	if err != nil {
		panic(err)
	}
	return n
}

func cast[To uint32 | uint64, From int32 | int64](n *From) *To {
	if n == nil {
		return nil
	}
	return new(To(*n))
}

func nodes(in v1alpha1.NodeIDs) (out []uint64) {
	for _, n := range in {
		out = append(out, number(n))
	}
	return out
}
