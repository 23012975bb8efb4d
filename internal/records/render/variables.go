// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
)

// variables are what the variables of manifests follow from.
type variables struct {
	record    *v1alpha1.DeploymentRecord
	template  *v1alpha1.DeploymentTemplate
	settings  Settings
	names     names
	functions []Function
	odgm      ODGM
	addons    []Addon
	// collections are those of the ODGM in JSON, attributes those of the telemetry. Both are the same for all components, and may be
	// as long as a record.
	collections, attributes string
}

// maxCollectionsBytes is how long the JSON of the collections may be: the API server takes no object of that size.
const maxCollectionsBytes = 1 << 20

// shared fills in what is the same for all components.
func (v *variables) shared() (err error) {
	if t := v.record.Spec.Telemetry; t != nil {
		var attributes []string
		for _, k := range slices.Sorted(maps.Keys(t.ResourceAttributes)) {
			attributes = append(attributes, k+"="+string(t.ResourceAttributes[k]))
		}
		v.attributes = strings.Join(attributes, ",")
	}
	if len(v.odgm.Members) > 0 {
		v.collections, err = v.collectionsInJSON()
	}
	return err
}

// ofFunction returns what the manifests of a function can refer to.
func (v *variables) ofFunction(f *Function) Variables {
	vars := v.common()
	maps.Copy(vars, Variables{
		"name":           f.Name,
		"function":       f.Spec.FunctionKey,
		"image":          cmp.Or(f.Spec.Image, v.settings.DefaultFunctionImage),
		"port":           int64(f.Port),
		"portText":       strconv.Itoa(int(f.Port)),
		"portName":       "http1",
		"replicas":       int64(f.Replicas),
		"minScale":       nil,
		"maxScale":       nil,
		"concurrency":    nil,
		"resources":      nil,
		"env":            listOf(v.functionEnv(f)),
		"readinessProbe": probe(cmp.Or(f.Spec.ReadinessProbe, &v1alpha1.FunctionProbe{}), f.Port),
		"livenessProbe":  probe(f.Spec.LivenessProbe, f.Port),
	})
	if f.Spec.HTTP2 {
		vars["portName"] = "h2c"
	}
	if f.Spec.MinScale != nil || f.NFR.Availability != nil {
		vars["minScale"] = strconv.Itoa(int(f.Replicas))
	}
	if f.MaxReplicas > 0 {
		vars["maxScale"] = strconv.Itoa(int(f.MaxReplicas))
	}
	if n := f.Spec.MaxConcurrency; n > 0 {
		vars["concurrency"] = int64(n)
	}
	if res := resourcesOf(f.Spec.Resources, v.record.Spec.ResourceAllocation, v.template.Spec.ResourceRequirements); len(res) > 0 {
		vars["resources"] = res
	}
	return vars
}

// functionEnv returns the environment of a function: the port, on which published images listen, the ODGM, the router, telemetry, and its
// configuration, which goes before them.
func (v *variables) functionEnv(f *Function) map[string]string {
	env := map[string]string{"HTTP_PORT": strconv.Itoa(int(f.Port))}
	if len(v.odgm.Members) > 0 {
		env["ODGM_ENABLED"] = "true"
		env["ODGM_SERVICE"] = v.odgm.Address
		env["ODGM_COLLECTIONS"] = strings.Join(v.collectionNames(), ",")
	}
	for i := range v.addons {
		env[addonVariable(v.addons[i].Key)] = v.addons[i].Name
	}
	v.setShared(env, f.Name)
	if v.settings.Router != "" {
		env["OPRC_ZENOH_MODE"] = "client"
		if len(v.odgm.Members) > 0 {
			env["OPRC_ZENOH_PEERS"] += fmt.Sprintf(",tcp/%s:%d", v.odgm.Service, ZenohPort)
		}
	}
	for name, value := range f.Spec.Config {
		env[name] = string(value)
	}
	return env
}

// ofODGM returns what the manifests of the ODGM can refer to, for one of its members.
func (v *variables) ofODGM(m Member) Variables {
	unit, c := &v.record.Spec.DeploymentUnit, ptr.Deref(v.record.Spec.ODGMConfig, v1alpha1.ODGMConfig{})
	env := map[string]string{
		"ODGM_CLUSTER_ID":    v.record.Name,
		"ODGM_HTTP_PORT":     strconv.Itoa(ODGMPort),
		"ODGM_SHARDS":        strconv.Itoa(int(ptr.Deref(c.PartitionCount, 1))),
		"ODGM_COLLECTIONS":   strings.Join(v.collectionNames(), ","),
		"OPRC_CLS_ID":        classID(unit),
		"OPRC_DEPLOYMENT_ID": cmp.Or(unit.ID, v.record.Name),
		"OPRC_ZENOH_PORT":    strconv.Itoa(ZenohPort),
	}
	env["ODGM_COLLECTION"] = v.collections
	if m.ID != nil {
		env["ODGM_NODE_ID"] = string(*m.ID)
	}
	if ids := memberIDs(&c, v.odgm.Members); ids != "" {
		env["ODGM_MEMBERS"] = ids
	}
	if c.Log != "" {
		env["ODGM_LOG"] = c.Log
	}
	v.setShared(env, v.odgm.Members[0].Name) // one service, whatever the number of its members
	if v.settings.Router != "" {
		env["OPRC_ZENOH_MODE"] = "peer"
	}
	vars := v.common()
	maps.Copy(vars, Variables{
		"name": m.Name, "service": v.odgm.Service, "image": v.settings.ODGMImage,
		"port": int64(ODGMPort), "zenohPort": int64(ZenohPort), "env": listOf(env),
	})
	return vars
}

// classID returns the ID by which data and gateway address a class: its key, with the package before it.
func classID(u *v1alpha1.DeploymentUnit) string {
	if u.PackageName == "" || strings.HasPrefix(u.ClassKey, u.PackageName+".") {
		return u.ClassKey
	}
	return u.PackageName + "." + u.ClassKey
}

// collectionNames returns the collections of a record: one of its own name if it names none.
func (v *variables) collectionNames() []string {
	if c := v.record.Spec.ODGMConfig; c != nil && len(c.Collections) > 0 {
		return c.Collections
	}
	return []string{v.record.Name}
}

func (v *variables) common() Variables {
	u := &v.record.Spec.DeploymentUnit
	return Variables{
		"record":       v.record.Name,
		"recordLabel":  v.names.label,
		"namespace":    v.record.Namespace,
		"class":        u.ClassKey,
		"classLabel":   v.names.class,
		"package":      u.PackageName,
		"deploymentID": u.ID,
	}
}

// collectionsInJSON returns the collections in the form that ODGM images read. Each has the options and the invocations of the record.
func (v *variables) collectionsInJSON() (string, error) {
	c := ptr.Deref(v.record.Spec.ODGMConfig, v1alpha1.ODGMConfig{})
	options := map[string]v1alpha1.AttributeValue{}
	maps.Copy(options, c.Options)
	sharedOptions := inJSON(options)
	sharedInvocations := inJSON(v.invocations(ptr.Deref(c.Invocations, v1alpha1.InvocationRoutes{})))
	text := []byte("[")
	for i, name := range v.collectionNames() {
		assignments := []map[string]any{}
		for _, a := range c.Assignments[name] {
			one := map[string]any{"replica": numbers(a.Replica), "shard_ids": numbers(a.ShardIDs)}
			if a.Primary != nil {
				one["primary"] = json.Number(*a.Primary)
			}
			assignments = append(assignments, one)
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, inJSON(map[string]any{
			"name":              name,
			"partition_count":   ptr.Deref(c.PartitionCount, 1),
			"replica_count":     ptr.Deref(c.ReplicaCount, 1),
			"shard_type":        cmp.Or(c.ShardType, "none"),
			"shard_assignments": assignments,
			"options":           sharedOptions,
			"invocations":       sharedInvocations,
		})...)
		if len(text) > maxCollectionsBytes {
			path := field.NewPath("spec", "odgmConfig", "collections")
			return "", &Error{v1alpha1.ReasonRefused, field.Invalid(path, len(c.Collections), fmt.Sprintf(
				"the collections with their options and invocations have more than %d bytes", maxCollectionsBytes))}
		}
	}
	return string(append(text, ']')), nil
}

// inJSON returns texts, numbers, lists and maps of them in JSON.
func inJSON(v any) json.RawMessage {
	text, _ := json.Marshal(v)
	return text
}

// invocations returns where each method is called: the requested routes, and for the other methods their functions. Without bindings
// each function is a method of its own name.
func (v *variables) invocations(requested v1alpha1.InvocationRoutes) map[string]any {
	urls, modules, methods := map[string]string{}, map[string]string{}, v.record.Spec.DeploymentUnit.FunctionBindings
	bound := len(methods) > 0
	for i := range v.functions {
		key := v.functions[i].Spec.FunctionKey
		urls[key] = v.functions[i].URL
		if module := v.functions[i].Spec.WASMModuleURL; module != "" {
			modules[v.functions[i].URL] = module
		}
		if !bound {
			methods = append(methods, v1alpha1.FunctionBinding{Name: key})
		}
	}
	routes := map[string]v1alpha1.FunctionRoute{}
	for _, m := range slices.Backward(methods) { // the first of a name counts
		if url := urls[cmp.Or(m.FunctionKey, m.Name)]; url != "" {
			routes[m.Name] = v1alpha1.FunctionRoute{URL: url, Stateless: m.Stateless}
		}
	}
	maps.Copy(routes, requested.Routes)
	written := map[string]any{}
	for method, route := range routes {
		url := cmp.Or(route.URL, urls[route.FunctionKey])
		one := map[string]any{
			"url":          url,
			"stateless":    ptr.Deref(route.Stateless, false),
			"standby":      ptr.Deref(route.Standby, false),
			"active_group": numbers(route.ActiveGroup),
		}
		if module := modules[url]; module != "" {
			one["wasm_module_url"] = module
		}
		written[method] = one
	}
	return map[string]any{"fn_routes": written, "disabled_fn": append([]string{}, requested.Disabled...)}
}

// numbers returns IDs as JSON numbers, which ODGM images read.
func numbers(ids v1alpha1.NodeIDs) []json.Number {
	list := make([]json.Number, len(ids))
	for i, id := range ids {
		list[i] = json.Number(id)
	}
	return list
}

// setShared adds the router and telemetry to the environment of a component. The SDKs of OpenTelemetry read which exporter there
// is of each kind, published images whether it is enabled.
func (v *variables) setShared(env map[string]string, component string) {
	if v.settings.Router != "" {
		env["OPRC_ZENOH_PEERS"] = v.settings.Router
	}
	t := v.record.Spec.Telemetry
	if t == nil || !t.Enabled {
		return
	}
	env["OTEL_SERVICE_NAME"] = cmp.Or(t.ServiceName, component)
	if v.settings.OTLPEndpoint != "" {
		env["OTEL_EXPORTER_OTLP_ENDPOINT"] = v.settings.OTLPEndpoint
	}
	for kind, on := range map[string]bool{
		"TRACES": ptr.Deref(t.Traces, true), "METRICS": ptr.Deref(t.Metrics, true), "LOGS": ptr.Deref(t.Logs, false),
	} {
		exporter := "none"
		if on {
			exporter = "otlp"
		}
		env["OTEL_"+kind+"_EXPORTER"] = exporter
		env["OTEL_"+kind+"_ENABLED"] = strconv.FormatBool(on)
	}
	if t.SamplingRate != "" {
		env["OTEL_TRACES_SAMPLER"] = "parentbased_traceidratio"
		env["OTEL_TRACES_SAMPLER_ARG"] = t.SamplingRate
	}
	if v.attributes != "" {
		env["OTEL_RESOURCE_ATTRIBUTES"] = v.attributes
	}
}

// listOf returns the variables of a container, sorted by name; nil for none.
func listOf(env map[string]string) any {
	if len(env) == 0 {
		return nil
	}
	list := make([]any, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, map[string]any{"name": name, "value": env[name]})
	}
	return list
}

// resourcesOf returns the resources of a container from the first allocation that is set, nil for none.
func resourcesOf(allocations ...*v1alpha1.ResourceAllocation) map[string]any {
	f := cmp.Or(allocations...)
	if f == nil {
		return nil
	}
	out := map[string]any{}
	for side, m := range map[string]map[string]any{
		"requests": {"cpu": f.CPU, "memory": f.Memory},
		"limits":   {"cpu": f.CPULimit, "memory": f.MemoryLimit},
	} {
		if maps.DeleteFunc(m, func(_ string, v any) bool { return v == "" }); len(m) > 0 {
			out[side] = m
		}
	}
	return out
}
