// SPDX-License-Identifier: Apache-2.0

package records

import (
	"strconv"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	oaascommon "berth.dev/berth/apis/proto/oaas/common"
	oaasdeployment "berth.dev/berth/apis/proto/oaas/deployment"
	"berth.dev/berth/apis/v1alpha1"
)

func diff(want, got proto.Message) string { return cmp.Diff(want, got, protocmp.Transform()) }

var (
	text   = rapid.StringMatching(`[a-zA-Z0-9 ./:äß-]{1,12}`)
	share  = rapid.Float64Range(0, 1)
	number = rapid.Uint64Range(0, 1<<62)
)

func maybe[T any](t *rapid.T, of *rapid.Generator[T], name string) *T {
	return rapid.Ptr(of, true).Draw(t, name)
}

func drawNFR(t *rapid.T) *oaasdeployment.NfrRequirements {
	n := rapid.Uint32Range(0, 1<<31-1)
	return &oaasdeployment.NfrRequirements{
		MaxLatencyMs: maybe(t, n, "latency"), MinThroughputRps: maybe(t, n, "rps"),
		Availability: maybe(t, share, "availability"), CpuUtilizationTarget: maybe(t, share, "cpu"),
	}
}

// drawUnit makes a unit of the latest revision. What means the same written in two ways is written in one: no empty texts
// where a field may be absent, no empty message.
func drawUnit(t *rapid.T) *oaasdeployment.DeploymentUnit {
	texts := rapid.MapOfN(text, text, 0, 2)
	n := rapid.Uint32Range(0, 1<<31-1)
	u := &oaasdeployment.DeploymentUnit{
		Id: text.Draw(t, "id"), PackageName: text.Draw(t, "package"), ClassKey: text.Draw(t, "class"), TargetEnv: text.Draw(t, "env"),
		SelectedTemplate: maybe(t, text, "template"),
	}
	if rapid.Bool().Draw(t, "created") {
		u.CreatedAt = &oaascommon.Timestamp{Seconds: rapid.Int64Range(firstSecond, lastSecond).Draw(t, "seconds")}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "functions") {
		f := &oaasdeployment.FunctionDeploymentSpec{
			FunctionKey: "f" + strconv.Itoa(i), Description: maybe(t, text, "description"), AvailableLocation: maybe(t, text, "location"),
		}
		if c := texts.Draw(t, "config"); len(c) > 0 {
			f.Config = c
		}
		if nfr := drawNFR(t); proto.Size(nfr) > 0 {
			f.NfrRequirements = nfr
		}
		f.ProvisionConfig = &oaasdeployment.ProvisionConfig{
			ContainerImage: maybe(t, text, "image"), Port: maybe(t, rapid.Uint32Range(1, 65535), "port"), MaxConcurrency: n.Draw(t, "concurrency"),
			NeedHttp2: rapid.Bool().Draw(t, "http2"), CpuRequest: maybe(t, text, "cpu"), MemoryRequest: maybe(t, text, "memory"),
			CpuLimit: maybe(t, text, "cpu limit"), MemoryLimit: maybe(t, text, "memory limit"), MinScale: maybe(t, n, "min"), MaxScale: maybe(t, n, "max"),
			WasmModuleUrl: maybe(t, text, "wasm"),
		}
		u.Functions = append(u.Functions, f)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "bindings") {
		u.FunctionBindings = append(u.FunctionBindings, &oaasdeployment.ClassFunctionBinding{
			Name: "m" + strconv.Itoa(i), FunctionKey: text.Draw(t, "bound"), AccessModifier: maybe(t, text, "access"),
			Stateless: maybe(t, rapid.Bool(), "stateless"), Parameters: rapid.SliceOfN(text, 0, 2).Draw(t, "parameters"),
		})
	}
	if rapid.Bool().Draw(t, "telemetry") {
		flag := rapid.Bool()
		u.Telemetry = &oaasdeployment.TelemetrySpec{
			Enabled: flag.Draw(t, "enabled"), Traces: maybe(t, flag, "traces"), Metrics: maybe(t, flag, "metrics"), Logs: maybe(t, flag, "logs"),
			SamplingRate: maybe(t, share, "rate"), ServiceName: maybe(t, text, "service"), ResourceAttributes: texts.Draw(t, "attributes"),
		}
	}
	if rapid.Bool().Draw(t, "odgm") {
		u.OdgmConfig = drawODGM(t)
	}
	return u
}

func drawODGM(t *rapid.T) *oaasdeployment.OdgmConfig {
	n, ids := rapid.Uint32Range(0, 1<<31-1), rapid.SliceOfN(number, 0, 3)
	c := &oaasdeployment.OdgmConfig{
		Collections: rapid.SliceOfN(text, 0, 3).Draw(t, "collections"), PartitionCount: maybe(t, n, "partitions"), ReplicaCount: maybe(t, n, "replicas"),
		ShardType: maybe(t, text, "shard type"), Options: rapid.MapOfN(text, text, 0, 2).Draw(t, "options"), Log: maybe(t, text, "log"),
		OdgmNodeId: maybe(t, number, "node"),
	}
	if rapid.Bool().Draw(t, "invocations") {
		c.Invocations = &oaasdeployment.InvocationRoutes{
			DisabledFn: rapid.SliceOfN(text, 0, 2).Draw(t, "disabled"),
			FnRoutes: map[string]*oaasdeployment.FunctionRoute{text.Draw(t, "route"): {
				Url: text.Draw(t, "url"), Stateless: maybe(t, rapid.Bool(), "stateless"), Standby: maybe(t, rapid.Bool(), "standby"),
				ActiveGroup: ids.Draw(t, "group"), FunctionKey: maybe(t, text, "function"),
			}},
		}
	}
	if rapid.Bool().Draw(t, "nodes") {
		c.EnvNodeIds = map[string]*oaasdeployment.OdgmNodeIds{text.Draw(t, "env"): {Ids: ids.Draw(t, "ids")}}
		shards := &oaasdeployment.CollectionShardAssignments{}
		if rapid.Bool().Draw(t, "shards") {
			shards.Assignments = []*oaasdeployment.ShardAssignmentSpec{{}, {
				Primary: maybe(t, number, "primary"), Replica: ids.Draw(t, "replica"), ShardIds: ids.Draw(t, "shard ids"),
			}}
		}
		c.CollectionAssignments = map[string]*oaasdeployment.CollectionShardAssignments{text.Draw(t, "collection"): shards}
	}
	return c
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
			NfrRequirements: nfrOf(f.NFRRequirements), ProvisionConfig: p, Config: plain(f.Config),
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
			ResourceAttributes: plain(t.ResourceAttributes), SamplingRate: double(optional(t.SamplingRate)),
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
		ShardType: optional(c.ShardType), Options: plain(c.Options), Log: optional(c.Log), OdgmNodeId: node(c.NodeID),
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
		out.EnvNodeIds = map[string]*oaasdeployment.OdgmNodeIds{env: {Ids: nodes(list)}}
	}
	for name, list := range c.Assignments {
		a := &oaasdeployment.CollectionShardAssignments{}
		for _, s := range list {
			a.Assignments = append(a.Assignments, &oaasdeployment.ShardAssignmentSpec{
				Primary: node(s.Primary), Replica: nodes(s.Replica), ShardIds: nodes(s.ShardIDs),
			})
		}
		out.CollectionAssignments = map[string]*oaasdeployment.CollectionShardAssignments{name: a}
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

func natural(n *int32) *uint32 {
	if n == nil {
		return nil
	}
	return new(uint32(*n))
}

func node(n *int64) *uint64 {
	if n == nil {
		return nil
	}
	return new(uint64(*n))
}

func nodes(in v1alpha1.NodeIDs) (out []uint64) {
	for _, n := range in {
		out = append(out, uint64(n))
	}
	return out
}

func plain[V ~string](in map[string]V) map[string]string {
	out := map[string]string{}
	for key, value := range in {
		out[key] = string(value)
	}
	return out
}
