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

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"berth.dev/berth/apis/v1alpha1"
)

// env are environment variables. The first value of a name is kept.
type env map[string]string

func (e env) set(name, value string) {
	if _, there := e[name]; !there {
		e[name] = value
	}
}

// list returns the variables of a container, sorted by name; nil for none.
func (e env) list() any {
	if len(e) == 0 {
		return nil
	}
	list := make([]any, 0, len(e))
	for _, name := range slices.Sorted(maps.Keys(e)) {
		list = append(list, map[string]any{"name": name, "value": e[name]})
	}
	return list
}

// variables are what the variables of manifests follow from.
type variables struct {
	record    *v1alpha1.DeploymentRecord
	template  *v1alpha1.DeploymentTemplate
	settings  Settings
	names     names
	functions []Function
	odgm      ODGM
}

// ofFunction returns what the manifests of a function can refer to.
func (v *variables) ofFunction(f *Function) Variables {
	vars := v.common()
	maps.Copy(vars, Variables{
		"name":        f.Name,
		"function":    f.Spec.FunctionKey,
		"image":       cmp.Or(f.Spec.Image, v.settings.DefaultFunctionImage),
		"port":        int64(f.Port),
		"portText":    strconv.Itoa(int(f.Port)),
		"portName":    "http1",
		"replicas":    int64(f.Replicas),
		"minScale":    nil,
		"maxScale":    nil,
		"concurrency": nil,
		"resources":   nil,
		"env":         v.functionEnv(f).list(),
	})
	if f.Spec.HTTP2 {
		vars["portName"] = "h2c"
	}
	if f.Spec.MinScale != nil || f.NFR.Availability != nil {
		vars["minScale"] = strconv.Itoa(int(f.Replicas))
	}
	if n := f.Spec.MaxScale; n != nil && *n > 0 {
		vars["maxScale"] = strconv.Itoa(int(*n))
	}
	if n := f.Spec.MaxConcurrency; n > 0 {
		vars["concurrency"] = int64(n)
	}
	if res := resourcesOf(f.Spec.Resources, v.record.Spec.ResourceAllocation, v.template.Spec.ResourceRequirements); len(res) > 0 {
		vars["resources"] = res
	}
	return vars
}

// functionEnv returns the environment of a function: its configuration, the ODGM, the router and telemetry.
func (v *variables) functionEnv(f *Function) env {
	e := env{}
	for name, value := range f.Spec.Config {
		e.set(name, string(value))
	}
	if v.odgm.Name != "" {
		e.set("ODGM_ENABLED", "true")
		e.set("ODGM_SERVICE", v.odgm.Address)
		if c := v.record.Spec.ODGMConfig; c != nil && len(c.Collections) > 0 {
			e.set("ODGM_COLLECTIONS", strings.Join(c.Collections, ","))
		}
	}
	router(e, v.settings.Router, "client")
	telemetry(e, v.record.Spec.Telemetry, f.Name)
	return e
}

// ofODGM returns what the manifests of the ODGM can refer to.
func (v *variables) ofODGM() Variables {
	c := v.record.Spec.ODGMConfig
	if c == nil {
		c = &v1alpha1.ODGMConfig{}
	}
	e := env{}
	e.set("ODGM_CLUSTER_ID", v.record.Name)
	e.set("ODGM_SHARDS", strconv.Itoa(int(ptr.Deref(c.PartitionCount, 1))))
	e.set("ODGM_COLLECTIONS", strings.Join(c.Collections, ","))
	if collections := collectionsOf(v.record.Spec.DeploymentUnit.FunctionBindings, v.functions, c); len(collections) > 0 {
		text, _ := json.Marshal(collections) // texts, numbers, lists and maps of them
		e.set("ODGM_COLLECTION", string(text))
	}
	if c.NodeID != nil {
		e.set("ODGM_NODE_ID", strconv.FormatInt(*c.NodeID, 10))
	}
	if members := membersOf(c); members != "" {
		e.set("ODGM_MEMBERS", members)
	}
	if c.Log != "" {
		e.set("ODGM_LOG", c.Log)
	}
	e.set("OPRC_CLS_ID", v.record.Spec.DeploymentUnit.ClassKey)
	e.set("OPRC_DEPLOYMENT_ID", cmp.Or(v.record.Spec.DeploymentUnit.ID, v.record.Name))
	router(e, v.settings.Router, "peer")
	telemetry(e, v.record.Spec.Telemetry, v.odgm.Name)
	vars := v.common()
	maps.Copy(vars, Variables{
		"name": v.odgm.Name, "service": v.odgm.Service, "image": v.settings.ODGMImage, "port": int64(ODGMPort), "env": e.list(),
	})
	return vars
}

func (v *variables) common() Variables {
	u := &v.record.Spec.DeploymentUnit
	return Variables{
		"record":       v.record.Name,
		"namespace":    v.record.Namespace,
		"class":        u.ClassKey,
		"classLabel":   v.names.class,
		"package":      u.PackageName,
		"deploymentID": u.ID,
	}
}

// collectionsOf are the collections in the form that ODGM images read.
func collectionsOf(
	methods []v1alpha1.FunctionBinding, functions []Function, c *v1alpha1.ODGMConfig,
) (list []map[string]any) {
	for _, name := range c.Collections {
		assignments := []map[string]any{}
		for _, a := range c.Assignments[name] {
			one := map[string]any{"replica": orEmpty(a.Replica), "shard_ids": orEmpty(a.ShardIDs)}
			if a.Primary != nil {
				one["primary"] = *a.Primary
			}
			assignments = append(assignments, one)
		}
		options := map[string]string{}
		for k, v := range c.Options {
			options[k] = string(v)
		}
		list = append(list, map[string]any{
			"name":              name,
			"partition_count":   ptr.Deref(c.PartitionCount, 1),
			"replica_count":     ptr.Deref(c.ReplicaCount, 1),
			"shard_type":        cmp.Or(c.ShardType, "none"),
			"shard_assignments": assignments,
			"options":           options,
			"invocations":       routesOf(methods, functions, c.Invocations),
		})
	}
	return list
}

func orEmpty(ids v1alpha1.NodeIDs) []int64 {
	if ids == nil {
		return []int64{}
	}
	return ids
}

// routesOf returns where each method is called: the requested routes, and for the other methods their functions. Without bindings
// each function is a method of its own name.
func routesOf(methods []v1alpha1.FunctionBinding, functions []Function, requested *v1alpha1.InvocationRoutes) map[string]any {
	urls := map[string]string{}
	for i := range functions {
		urls[functions[i].Spec.FunctionKey] = functions[i].URL
	}
	disabled, routes := []string{}, map[string]any{}
	if requested != nil {
		disabled = append(disabled, requested.Disabled...)
		for method, route := range requested.Routes {
			routes[method] = map[string]any{
				"url":          cmp.Or(route.URL, urls[route.FunctionKey]),
				"stateless":    ptr.Deref(route.Stateless, false),
				"standby":      ptr.Deref(route.Standby, false),
				"active_group": orEmpty(route.ActiveGroup),
			}
		}
	}
	if len(methods) == 0 {
		for i := range functions {
			key := functions[i].Spec.FunctionKey
			methods = append(methods, v1alpha1.FunctionBinding{Name: key, FunctionKey: key})
		}
	}
	for _, m := range methods {
		url := urls[cmp.Or(m.FunctionKey, m.Name)]
		if _, is := routes[m.Name]; is || url == "" {
			continue
		}
		routes[m.Name] = map[string]any{
			"url":          url,
			"stateless":    ptr.Deref(m.Stateless, false),
			"standby":      false,
			"active_group": []int64{},
		}
	}
	return map[string]any{"fn_routes": routes, "disabled_fn": disabled}
}

// membersOf are the numbers of all ODGM nodes, sorted, each once.
func membersOf(c *v1alpha1.ODGMConfig) string {
	var ids []int64
	for _, of := range c.NodeIDs {
		ids = append(ids, of...)
	}
	slices.Sort(ids)
	var texts []string
	for _, id := range slices.Compact(ids) {
		texts = append(texts, strconv.FormatInt(id, 10))
	}
	return strings.Join(texts, ",")
}

func router(e env, address, mode string) {
	if address != "" {
		e.set("OPRC_ZENOH_MODE", mode)
		e.set("OPRC_ZENOH_PEERS", address)
	}
}

func telemetry(e env, t *v1alpha1.Telemetry, name string) {
	if t == nil || !t.Enabled {
		return
	}
	e.set("OTEL_SERVICE_NAME", cmp.Or(t.ServiceName, name))
	for kind, on := range map[string]*bool{"TRACES": t.Traces, "METRICS": t.Metrics, "LOGS": t.Logs} {
		if on != nil && !*on {
			e.set(fmt.Sprintf("OTEL_%s_EXPORTER", kind), "none")
		} else {
			e.set(fmt.Sprintf("OTEL_%s_EXPORTER", kind), "otlp")
		}
	}
	if t.SamplingRate != "" {
		e.set("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
		e.set("OTEL_TRACES_SAMPLER_ARG", t.SamplingRate)
	}
	var attributes []string
	for _, k := range slices.Sorted(maps.Keys(t.ResourceAttributes)) {
		attributes = append(attributes, k+"="+string(t.ResourceAttributes[k]))
	}
	if len(attributes) > 0 {
		e.set("OTEL_RESOURCE_ATTRIBUTES", strings.Join(attributes, ","))
	}
}

// resourcesOf returns the resources of a container from the first allocation that is set, nil for none.
func resourcesOf(allocations ...*v1alpha1.ResourceAllocation) map[string]any {
	f := cmp.Or(allocations...)
	if f == nil {
		return nil
	}
	out := map[string]any{}
	for _, side := range []struct{ name, cpu, memory string }{{"requests", f.CPU, f.Memory}, {"limits", f.CPULimit, f.MemoryLimit}} {
		m := map[string]any{}
		if side.cpu != "" {
			m[string(corev1.ResourceCPU)] = side.cpu
		}
		if side.memory != "" {
			m[string(corev1.ResourceMemory)] = side.memory
		}
		if len(m) > 0 {
			out[side.name] = m
		}
	}
	return out
}
