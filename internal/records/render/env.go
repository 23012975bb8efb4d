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

	"berth.dev/berth/apis/v1alpha1"
)

// ODGMPort is where the ODGM serves; its Service has it under this number and under 80.
const ODGMPort = 8081

// ODGMService is the name of the Service of a record's ODGM.
func ODGMService(record string) string { return ChildName(record, "-odgm-svc") }

// env is a list of environment variables in the making; of one name the first counts.
type env map[string]string

func (e env) set(name, value string) {
	if _, there := e[name]; !there {
		e[name] = value
	}
}

// list returns them in the order of their names, as a container has them; nil if there are none.
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

// functionVariables are what the manifests of a function can refer to.
func functionVariables(record *v1alpha1.DeploymentRecord, t *v1alpha1.DeploymentTemplate, f *Function, r *Rendered, s Settings) Variables {
	vars := common(record)
	maps.Copy(vars, Variables{
		"name": f.Name, "function": f.Spec.FunctionKey, "image": cmp.Or(f.Spec.Image, s.DefaultFunctionImage),
		"port": int64(f.Port), "replicas": int64(f.Replicas), "minScale": nil, "maxScale": nil, "concurrency": nil,
		"resources": nil, "env": functionEnv(record, f, r, s).list(), "portName": "http1", "portText": strconv.Itoa(int(f.Port)),
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
	if res := resourcesOf(f.Spec.Resources, record.Spec.ResourceAllocation, t.Spec.ResourceRequirements); len(res) > 0 {
		vars["resources"] = res
	}
	return vars
}

// functionEnv is what a function is told: what the record says, and where the ODGM is.
func functionEnv(record *v1alpha1.DeploymentRecord, f *Function, r *Rendered, s Settings) env {
	e := env{}
	for name, value := range f.Spec.Config {
		e.set(name, string(value))
	}
	if r.ODGM != "" {
		e.set("ODGM_ENABLED", "true")
		e.set("ODGM_SERVICE", r.ODGMAddress)
		if c := record.Spec.ODGMConfig; c != nil && len(c.Collections) > 0 {
			e.set("ODGM_COLLECTIONS", strings.Join(c.Collections, ","))
		}
	}
	router(e, s.Router, "client")
	telemetry(e, record.Spec.Telemetry, f.Name)
	return e
}

// odgmVariables are what the manifests of the ODGM can refer to.
func odgmVariables(record *v1alpha1.DeploymentRecord, r *Rendered, s Settings) Variables {
	c := record.Spec.ODGMConfig
	if c == nil {
		c = &v1alpha1.ODGMConfig{}
	}
	e := env{}
	e.set("ODGM_CLUSTER_ID", record.Name)
	e.set("ODGM_SHARDS", strconv.Itoa(int(valueOr(c.PartitionCount, 1))))
	e.set("ODGM_COLLECTIONS", strings.Join(c.Collections, ","))
	if collections := collectionsOf(record, r, c); len(collections) > 0 {
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
	e.set("OPRC_CLS_ID", record.Spec.DeploymentUnit.ClassKey)
	e.set("OPRC_DEPLOYMENT_ID", cmp.Or(record.Spec.DeploymentUnit.ID, record.Name))
	router(e, s.Router, "peer")
	telemetry(e, record.Spec.Telemetry, r.ODGM)
	vars := common(record)
	maps.Copy(vars, Variables{
		"name": r.ODGM, "service": ODGMService(record.Name), "image": s.ODGMImage, "port": int64(ODGMPort), "env": e.list(),
	})
	return vars
}

func common(record *v1alpha1.DeploymentRecord) Variables {
	u := &record.Spec.DeploymentUnit
	return Variables{
		"record": record.Name, "namespace": record.Namespace, "class": u.ClassKey, "package": u.PackageName,
		"classLabel": LabelValue(u.ClassKey), "deploymentID": u.ID,
	}
}

// collectionsOf are the collections in the form that ODGM images read.
func collectionsOf(record *v1alpha1.DeploymentRecord, r *Rendered, c *v1alpha1.ODGMConfig) (list []map[string]any) {
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
			"name": name, "partition_count": valueOr(c.PartitionCount, 1), "replica_count": valueOr(c.ReplicaCount, 1),
			"shard_type": cmp.Or(c.ShardType, "none"), "shard_assignments": assignments, "options": options,
			"invocations": routesOf(record, r, c.Invocations),
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

// routesOf says where each method is called: what the record says, and for the rest its functions.
func routesOf(record *v1alpha1.DeploymentRecord, r *Rendered, asked *v1alpha1.InvocationRoutes) map[string]any {
	disabled, routes := []string{}, map[string]any{}
	if asked != nil {
		disabled = append(disabled, asked.Disabled...)
		for method, route := range asked.Routes {
			one := map[string]any{"url": route.URL, "stateless": valueOr(route.Stateless, false), "standby": valueOr(route.Standby, false), "active_group": orEmpty(route.ActiveGroup)}
			if f := r.function(route.FunctionKey); route.URL == "" && f != nil {
				one["url"] = f.URL(record.Namespace)
			}
			routes[method] = one
		}
	}
	methods := record.Spec.DeploymentUnit.FunctionBindings
	if len(methods) == 0 { // each function is a method of its own name
		for _, f := range r.Functions {
			methods = append(methods, v1alpha1.FunctionBinding{Name: f.Spec.FunctionKey, FunctionKey: f.Spec.FunctionKey})
		}
	}
	for _, m := range methods {
		f := r.function(cmp.Or(m.FunctionKey, m.Name))
		if _, there := routes[m.Name]; there || f == nil {
			continue
		}
		routes[m.Name] = map[string]any{"url": f.URL(record.Namespace), "stateless": valueOr(m.Stateless, false), "standby": false, "active_group": []int64{}}
	}
	return map[string]any{"fn_routes": routes, "disabled_fn": disabled}
}

func (r *Rendered) function(key string) *Function {
	for i := range r.Functions {
		if r.Functions[i].Spec.FunctionKey == key {
			return &r.Functions[i]
		}
	}
	return nil
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

func valueOr[T any](p *T, other T) T {
	if p == nil {
		return other
	}
	return *p
}
