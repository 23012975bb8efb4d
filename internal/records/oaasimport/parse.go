// SPDX-License-Identifier: Apache-2.0

// Package oaasimport converts objects of the class runtime manager of OaaS to DeploymentRecords: its ClassRuntimes, and the
// DeploymentRecords of its earlier versions.
package oaasimport

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/records/render"
)

// Group is the API group of the objects.
const Group = "oaas.io"

const (
	kindRuntime = "ClassRuntime"
	kindRecord  = "DeploymentRecord"

	deploymentIDLabel       = Group + "/deployment-id"
	correlationIDAnnotation = Group + "/correlation-id"
)

// Kinds returns the kinds of both generations.
func Kinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		{Group: Group, Version: "v1alpha1", Kind: kindRuntime},
		{Group: Group, Version: "v1alpha1", Kind: kindRecord},
	}
}

// Has reports whether an object is of one of the kinds.
func Has(u *unstructured.Unstructured) bool {
	return slices.Contains(Kinds(), u.GroupVersionKind())
}

// Parse returns the record of an object of one of the kinds, and notes that describe what a record cannot hold. An error names the
// object and the field.
func Parse(u *unstructured.Unstructured) (record *v1alpha1.DeploymentRecord, notes []string, err error) {
	defer func() {
		if err != nil {
			record, err = nil, fmt.Errorf("%s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
		}
	}()
	p := &parser{}
	spec, err := p.decode(u)
	if err != nil {
		return nil, nil, err
	}
	id := cmp.Or(u.GetLabels()[deploymentIDLabel], u.GetName())
	name, err := render.RecordName(id)
	if err != nil {
		return nil, nil, fmt.Errorf("deployment ID %w", err)
	}
	record = &v1alpha1.DeploymentRecord{ObjectMeta: metav1.ObjectMeta{
		Namespace: u.GetNamespace(), Name: name,
		Labels:      map[string]string{v1alpha1.DeploymentIDLabel: render.Hash(id)},
		Annotations: map[string]string{v1alpha1.DeploymentIDAnnotation: id},
	}}
	if correlation := u.GetAnnotations()[correlationIDAnnotation]; correlation != "" {
		record.Annotations[v1alpha1.CorrelationIDAnnotation] = correlation
	}
	record.Spec = p.record(spec)
	record.Spec.DeploymentUnit.ID = id
	if created := u.GetCreationTimestamp(); !created.IsZero() {
		record.Spec.DeploymentUnit.CreatedAt = &created
	}
	return record, p.notes, p.err
}

// parser collects what is to be noted, and the first error.
type parser struct {
	notes []string
	err   error
}

func (p *parser) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// decode reads the spec, and notes fields that no version has.
func (p *parser) decode(u *unstructured.Unstructured) (*runtimeSpec, error) {
	fields, found, err := unstructured.NestedMap(u.Object, "spec")
	if err != nil || !found {
		return nil, fmt.Errorf("it has no spec")
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	spec := &runtimeSpec{}
	unknown, err := kjson.UnmarshalStrict(data, spec)
	if err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	for _, err := range unknown {
		p.note("spec: %v: it is left out", err)
	}
	return spec, nil
}

func (p *parser) record(s *runtimeSpec) v1alpha1.DeploymentRecordSpec {
	// The class key has no dot, the package may.
	class := cmp.Or(s.PackageClassKey, s.ClassKey)
	pkg, key := "", class
	if dot := strings.LastIndexByte(class, '.'); dot >= 0 {
		pkg, key = class[:dot], class[dot+1:]
	}
	spec := v1alpha1.DeploymentRecordSpec{
		DeploymentUnit:  v1alpha1.DeploymentUnit{PackageName: pkg, ClassKey: key},
		NFRRequirements: p.requirements(s.Requirements),
		TemplateHint:    s.SelectedTemplate,
		Addons:          p.addons(s.Addons),
		ODGMConfig:      p.odgm(s.ODGM),
		Enforcement:     p.enforcement(s),
		Telemetry:       p.telemetry(s.Telemetry),
	}
	for i := range s.Functions {
		spec.DeploymentUnit.Functions = append(spec.DeploymentUnit.Functions, p.function(i, &s.Functions[i]))
	}
	return spec
}

func (p *parser) addons(names *[]string) *[]v1alpha1.Addon {
	if names == nil {
		return nil
	}
	addons := []v1alpha1.Addon{}
	for _, name := range *names {
		if name != string(v1alpha1.AddonODGM) {
			p.note("spec.addons: %q is left out: only %s is known", name, v1alpha1.AddonODGM)
			continue
		}
		if !slices.Contains(addons, v1alpha1.AddonODGM) {
			addons = append(addons, v1alpha1.AddonODGM)
		}
	}
	return &addons
}

func (p *parser) function(i int, in *function) v1alpha1.FunctionSpec {
	at := fmt.Sprintf("spec.functions[%d]", i)
	out := v1alpha1.FunctionSpec{
		FunctionKey: in.FunctionKey, Description: in.Description, AvailableLocation: in.AvailableLocation,
		Image:          cmp.Or(in.Provision.ContainerImage, in.ContainerImage),
		Port:           in.Provision.Port,
		HTTP2:          in.Provision.NeedHTTP2,
		MaxConcurrency: in.Provision.MaxConcurrency,
		MinScale:       cmp.Or(in.Provision.MinScale, in.Replicas),
		MaxScale:       in.Provision.MaxScale,
		Resources:      allocation(&in.Provision.resources, &in.Resources),
		WASMModuleURL:  in.Provision.WASMModuleURL,
		Config:         in.Config,
	}
	if in.FunctionKey == "" {
		p.fail("%s.function_key is missing", at)
	}
	if q := in.QoS; q != nil {
		out.NFRRequirements = &v1alpha1.NFRRequirements{
			MinThroughputRPS: q.Throughput, Availability: p.share(at+".qos_requirement.availability", q.Availability, 1),
		}
	}
	return out
}

func allocation(now, before *resources) *v1alpha1.ResourceAllocation {
	a := v1alpha1.ResourceAllocation{
		CPU: cmp.Or(now.CPURequest, before.CPURequest), Memory: cmp.Or(now.MemoryRequest, before.MemoryRequest),
		CPULimit: cmp.Or(now.CPULimit, before.CPULimit), MemoryLimit: cmp.Or(now.MemoryLimit, before.MemoryLimit),
	}
	if a == (v1alpha1.ResourceAllocation{}) {
		return nil
	}
	return &a
}

func (p *parser) requirements(in *requirements) *v1alpha1.NFRRequirements {
	if in == nil {
		return nil
	}
	out := v1alpha1.NFRRequirements{
		MinThroughputRPS: in.MinThroughputRPS, MaxLatencyMS: in.MaxLatencyMS,
		Availability: p.share("spec.nfr_requirements.availability_pct", in.AvailabilityPercent, 100),
	}
	switch strings.ToLower(in.Consistency) {
	case "":
	case "strong":
		out.Consistency = v1alpha1.ConsistencyStrong
	case "eventual":
		out.Consistency = v1alpha1.ConsistencyEventual
	default:
		p.note("spec.nfr_requirements.consistency: %q is left out: only strong and eventual are known", in.Consistency)
	}
	if out == (v1alpha1.NFRRequirements{}) {
		return nil
	}
	return &out
}

// share returns a number of at most whole as a decimal number from 0 to 1.
func (p *parser) share(field string, n *float64, whole float64) *string {
	if n == nil {
		return nil
	}
	if !(*n >= 0 && *n <= whole) {
		p.fail("%s must be from 0 to %v, not %v", field, whole, *n)
		return nil
	}
	return new(decimal(*n / whole))
}

// decimal writes a number with at most nine digits after the point: 99.9 percent are 0.999, whatever their binary form is.
func decimal(f float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(f, 'f', 9, 64), "0"), ".")
}

func (p *parser) enforcement(s *runtimeSpec) *v1alpha1.NFREnforcement {
	in := s.Enforcement
	if in == nil && s.NFR != nil {
		in = s.NFR.Enforcement
	}
	if in == nil {
		return nil
	}
	out := &v1alpha1.NFREnforcement{Mode: v1alpha1.EnforcementObserve}
	switch strings.ToLower(in.Mode) {
	case "", "observe":
	case "off":
		out.Mode = v1alpha1.EnforcementOff
	case "enforce":
		out.Mode = v1alpha1.EnforcementEnforce
	default:
		p.note("spec.enforcement.mode: %q becomes %s: only off, observe and enforce are known", in.Mode, out.Mode)
	}
	known := []v1alpha1.NFRDimension{v1alpha1.DimensionReplicas, v1alpha1.DimensionCPU, v1alpha1.DimensionMemory}
	for _, name := range in.Dimensions {
		dimension := v1alpha1.NFRDimension(strings.ToLower(name))
		switch {
		case !slices.Contains(known, dimension):
			p.note("spec.enforcement.dimensions: %q is left out: only replicas, cpu and memory are known", name)
		case !slices.Contains(out.Dimensions, dimension):
			out.Dimensions = append(out.Dimensions, dimension)
		}
	}
	return out
}

func (p *parser) telemetry(in *telemetry) *v1alpha1.Telemetry {
	if in == nil {
		return nil
	}
	if in.Enabled == nil {
		p.note("spec.telemetry: enabled is unset, and becomes false: Berth has no default of the cluster")
	}
	out := &v1alpha1.Telemetry{
		Enabled: in.Enabled != nil && *in.Enabled, Traces: in.Traces, Metrics: in.Metrics, Logs: in.Logs, ServiceName: in.ServiceName,
		ResourceAttributes: in.ResourceAttributes,
	}
	if rate := p.share("spec.telemetry.sampling_rate", in.SamplingRate, 1); rate != nil {
		out.SamplingRate = *rate
	}
	return out
}

func (p *parser) odgm(in *odgm) *v1alpha1.ODGMConfig {
	if in == nil {
		return nil
	}
	out := &v1alpha1.ODGMConfig{
		Collections: in.Collections, PartitionCount: in.PartitionCount, ReplicaCount: in.ReplicaCount, ShardType: in.ShardType,
		Invocations: p.invocations(in.Invocations), Options: in.Options, Log: in.Log, NodeID: v1alpha1.OptionalNodeID(in.NodeID),
	}
	for env, ids := range in.NodeIDs {
		if out.NodeIDs == nil {
			out.NodeIDs = map[string]v1alpha1.NodeIDs{}
		}
		out.NodeIDs[env] = append(v1alpha1.NodeIDs{}, v1alpha1.NodeIDsOf(ids)...) // a list, which null is not
	}
	for name, shards := range in.Assignments {
		if out.Assignments == nil {
			out.Assignments = map[string]v1alpha1.ShardAssignments{}
		}
		list := v1alpha1.ShardAssignments{}
		for _, s := range shards {
			list = append(list, v1alpha1.ShardAssignment{
				Primary: v1alpha1.OptionalNodeID(s.Primary), Replica: v1alpha1.NodeIDsOf(s.Replica),
				ShardIDs: v1alpha1.NodeIDsOf(s.ShardIDs),
			})
		}
		out.Assignments[name] = list
	}
	return out
}

func (p *parser) invocations(in *invocations) *v1alpha1.InvocationRoutes {
	if in == nil {
		return nil
	}
	out := &v1alpha1.InvocationRoutes{Disabled: in.Disabled}
	for name, r := range in.Routes {
		if out.Routes == nil {
			out.Routes = map[string]v1alpha1.FunctionRoute{}
		}
		if r.WASMModuleURL != "" {
			p.note("spec.odgm_config.invocations.fn_routes[%s].wasm_module_url is left out: the module of the function counts", name)
		}
		out.Routes[name] = v1alpha1.FunctionRoute{
			URL: r.URL, FunctionKey: r.FunctionKey, Stateless: r.Stateless, Standby: r.Standby,
			ActiveGroup: v1alpha1.NodeIDsOf(r.ActiveGroup),
		}
	}
	return out
}
