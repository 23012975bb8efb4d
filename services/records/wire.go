// SPDX-License-Identifier: Apache-2.0

package records

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	tolerantv1 "berth.dev/berth/apis/proto/berth/oaas/v1"
	oaascommon "berth.dev/berth/apis/proto/oaas/common"
	oaasdeployment "berth.dev/berth/apis/proto/oaas/deployment"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/services/server"
)

// reader turns messages into a spec. It goes on after what it refuses, so that a caller gets all violations at once.
type reader struct{ bad server.Violations }

func (r *reader) refuse(field, description string) { r.bad.Add(field, description) }

// maxFunctions is how many functions a unit has at most, as the CRD has it.
const maxFunctions = 64

// fromWire reads a unit of either revision.
func fromWire(in *tolerantv1.DeploymentUnit) (*unit, error) {
	if in == nil {
		return nil, server.InvalidField("deployment_unit", "is missing")
	}
	if n := len(in.GetFunctions()); n > maxFunctions {
		return nil, server.InvalidField("deployment_unit.functions", fmt.Sprintf("has %d elements, and must have at most %d", n, maxFunctions))
	}
	seven, err := decodeSeven(in.GetFunctionBindings())
	if err != nil {
		return nil, err
	}
	const path = "deployment_unit"
	r := &reader{}
	u := &unit{revision: revisionIn(in, seven), spec: v1alpha1.DeploymentRecordSpec{
		DeploymentUnit: v1alpha1.DeploymentUnit{
			ID: in.GetId(), PackageName: in.GetPackageName(), ClassKey: in.GetClassKey(), TargetCluster: in.GetTargetCluster(),
			FunctionBindings: bindings(seven.bindings), CreatedAt: r.time(path+".created_at", in.GetCreatedAt()),
		},
		TargetEnvironment: in.GetTargetEnv(),
		NFRRequirements:   r.nfr(path+".nfr_requirements", seven.nfr),
		TemplateHint:      in.GetSelectedTemplate(),
		ODGMConfig:        r.odgm(path+".odgm_config", in.GetOdgmConfig()),
		Telemetry:         telemetry(in.GetTelemetry()),
	}}
	for i, f := range in.GetFunctions() {
		u.spec.DeploymentUnit.Functions = append(u.spec.DeploymentUnit.Functions, r.function(fmt.Sprintf("%s.functions[%d]", path, i), f))
	}
	if len(r.bad) > 0 {
		return nil, server.Invalid(r.bad...)
	}
	return u, nil
}

func (r *reader) function(path string, in *oaasdeployment.FunctionDeploymentSpec) v1alpha1.FunctionSpec {
	p := cmp.Or(in.GetProvisionConfig(), &oaasdeployment.ProvisionConfig{})
	at := path + ".provision_config"
	f := v1alpha1.FunctionSpec{
		FunctionKey: in.GetFunctionKey(), Description: in.GetDescription(), AvailableLocation: in.GetAvailableLocation(),
		// The fields of older clients apply where the latest message leaves them empty.
		Image:           cmp.Or(p.GetContainerImage(), in.GetImage()),
		HTTP2:           p.GetNeedHttp2(),
		MaxConcurrency:  r.int32(at+".max_concurrency", p.GetMaxConcurrency()),
		MinScale:        r.optional(at+".min_scale", p.MinScale),
		MaxScale:        r.optional(at+".max_scale", p.MaxScale),
		Resources:       r.resources(path, p, in.GetResourceRequirements()),
		NFRRequirements: r.nfr(path+".nfr_requirements", in.GetNfrRequirements()),
		WASMModuleURL:   p.GetWasmModuleUrl(),
		Config:          r.variables(path+".config", in.GetConfig()),
	}
	if f.MinScale == nil && in.GetReplicas() > 0 {
		f.MinScale = r.optional(path+".replicas", &in.Replicas)
	}
	if p.Port != nil {
		if f.Port = r.int32(at+".port", p.GetPort()); f.Port == 0 {
			r.refuse(at+".port", "is 0, and must be from 1 to 65535")
		}
	}
	return f
}

// variables reads environment variables. The names are those that a pod can have.
func (r *reader) variables(path string, in map[string]string) map[string]v1alpha1.ConfigValue {
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if r.bad.Full() {
			break
		}
		if problems := validation.IsRelaxedEnvVarName(name); len(problems) > 0 {
			r.refuse(fmt.Sprintf("%s[%s]", path, name), fmt.Sprintf("is the name %q of a variable: %s", name, strings.Join(problems, "; ")))
		}
	}
	return server.Texts[v1alpha1.ConfigValue](in)
}

// resources are those that a function requests for its pods, nil if it requests none. What the API server would refuse for each pod
// is refused here.
func (r *reader) resources(
	path string, p *oaasdeployment.ProvisionConfig, old *oaasdeployment.ResourceRequirements,
) *v1alpha1.ResourceAllocation {
	a := v1alpha1.ResourceAllocation{
		CPU: cmp.Or(p.GetCpuRequest(), old.GetCpuRequest()), Memory: cmp.Or(p.GetMemoryRequest(), old.GetMemoryRequest()),
		CPULimit: cmp.Or(p.GetCpuLimit(), old.GetCpuLimit()), MemoryLimit: cmp.Or(p.GetMemoryLimit(), old.GetMemoryLimit()),
	}
	if a == (v1alpha1.ResourceAllocation{}) {
		return nil
	}
	at := func(field, now string) string {
		if now == "" {
			return path + ".resource_requirements." + field
		}
		return path + ".provision_config." + field
	}
	for _, of := range []struct{ requestField, request, limitField, limit string }{
		{at("cpu_request", p.GetCpuRequest()), a.CPU, at("cpu_limit", p.GetCpuLimit()), a.CPULimit},
		{at("memory_request", p.GetMemoryRequest()), a.Memory, at("memory_limit", p.GetMemoryLimit()), a.MemoryLimit},
	} {
		request, limit := r.quantity(of.requestField, of.request), r.quantity(of.limitField, of.limit)
		if request != nil && limit != nil && request.Cmp(*limit) > 0 {
			r.refuse(of.requestField, fmt.Sprintf("is %q, and must be at most the limit %q", of.request, of.limit))
		}
	}
	return &a
}

// quantity reads a quantity, nil if there is none. This is before the call is authorized: its cost is bounded.
func (r *reader) quantity(field, text string) *resource.Quantity {
	if text == "" {
		return nil
	}
	q, err := budget.ParseQuantity(text)
	if err != nil {
		r.refuse(field, fmt.Sprintf("is %.64q, and must be a quantity such as 500m or 1Gi: %s", text, err))
		return nil
	}
	return &q
}

// nfr reads requirements. Empty ones are none.
func (r *reader) nfr(path string, in *oaasdeployment.NfrRequirements) *v1alpha1.NFRRequirements {
	if in == nil {
		return nil
	}
	n := v1alpha1.NFRRequirements{
		MaxLatencyMS:     r.optional(path+".max_latency_ms", in.MaxLatencyMs),
		MinThroughputRPS: r.optional(path+".min_throughput_rps", in.MinThroughputRps),
	}
	if in.Availability != nil {
		n.Availability = new(decimal(in.GetAvailability()))
	}
	if in.CpuUtilizationTarget != nil {
		n.CPUUtilizationTarget = new(decimal(in.GetCpuUtilizationTarget()))
	}
	if n == (v1alpha1.NFRRequirements{}) {
		return nil
	}
	return &n
}

// decimal writes a number such that it reads back as the same. The CRD looks at whether it is a share.
func decimal(f float64) string {
	if f == 0 {
		f = 0 // -0 is one
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

func bindings(in []*oaasdeployment.ClassFunctionBinding) (out []v1alpha1.FunctionBinding) {
	for _, b := range in {
		out = append(out, v1alpha1.FunctionBinding{
			Name: b.GetName(), FunctionKey: b.GetFunctionKey(), AccessModifier: b.GetAccessModifier(), Stateless: b.Stateless,
			Parameters: b.GetParameters(),
		})
	}
	return out
}

func telemetry(in *oaasdeployment.TelemetrySpec) *v1alpha1.Telemetry {
	if in == nil {
		return nil
	}
	t := &v1alpha1.Telemetry{
		Enabled: in.GetEnabled(), Traces: in.Traces, Metrics: in.Metrics, Logs: in.Logs, ServiceName: in.GetServiceName(),
		ResourceAttributes: server.Texts[v1alpha1.AttributeValue](in.GetResourceAttributes()),
	}
	if in.SamplingRate != nil {
		t.SamplingRate = decimal(in.GetSamplingRate())
	}
	return t
}

// Bounds of a time that can be written as RFC 3339, in seconds since 1970.
var (
	firstSecond = time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC).Unix() // the second before means no time
	lastSecond  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
)

// time reads a time, in whole seconds: the API server keeps no more.
func (r *reader) time(path string, in *oaascommon.Timestamp) *metav1.Time {
	switch {
	case in == nil:
		return nil
	case in.GetSeconds() < firstSecond, in.GetSeconds() > lastSecond:
		r.refuse(path+".seconds", fmt.Sprintf("is %d, and must be within the years 1 to 9999", in.GetSeconds()))
		return nil
	case in.GetNanos() < 0, in.GetNanos() > 999999999:
		r.refuse(path+".nanos", fmt.Sprintf("is %d, and must be from 0 to 999999999", in.GetNanos()))
		return nil
	}
	return new(metav1.NewTime(time.Unix(in.GetSeconds(), 0).UTC()))
}

// int32 reads a number that the CRD bounds: what it cannot even hold is refused here.
func (r *reader) int32(path string, n uint32) int32 {
	if n > math.MaxInt32 {
		r.refuse(path, fmt.Sprintf("is %d, and must be at most %d", n, math.MaxInt32))
		return 0
	}
	return int32(n)
}

func (r *reader) optional(path string, n *uint32) *int32 {
	if n == nil {
		return nil
	}
	return new(r.int32(path, *n))
}
