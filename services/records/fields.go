// SPDX-License-Identifier: Apache-2.0

package records

import (
	"regexp"
	"strings"
)

// The CRD's names of fields, and the names that callers use. What is not here has the same name in snake case.
var wireNames = map[string]string{
	"targetEnvironment": "target_env", "templateHint": "selected_template",
	"wasmModuleURL": "provision_config.wasm_module_url", "image": "provision_config.container_image",
	"port": "provision_config.port", "http2": "provision_config.need_http2", "maxConcurrency": "provision_config.max_concurrency",
	"minScale": "provision_config.min_scale", "maxScale": "provision_config.max_scale",
	"maxLatencyMS": "max_latency_ms", "minThroughputRPS": "min_throughput_rps",
	"nodeID": "odgm_node_id", "nodeIDs": "env_node_ids", "assignments": "collection_assignments",
	"routes": "fn_routes", "disabled": "disabled_fn", "shardIDs": "shard_ids",
	"resources": "provision_config", "cpu": "cpu_request", "memory": "memory_request",
}

// keyed are maps: what follows one is a key of the caller's.
var keyed = map[string]bool{
	"config": true, "options": true, "resourceAttributes": true, "nodeIDs": true, "assignments": true, "routes": true,
}

var hump = regexp.MustCompile(`[A-Z]+`)

// wireField is the name of a field of the CRD's in the proto.
func wireField(field string) string {
	switch {
	case field == "metadata.name":
		return "deployment_unit.id"
	case field == "spec", field == "spec.deploymentUnit":
		return "deployment_unit"
	case !strings.HasPrefix(field, "spec."):
		return field
	}
	out, key := "deployment_unit", false
	for part := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(field, "spec."), "deploymentUnit."), ".") {
		name, index := part, ""
		if i := strings.IndexByte(part, '['); i >= 0 {
			name, index = part[:i], part[i:]
		}
		wasKey := key
		key = !wasKey && index == "" && keyed[name]
		if known, ok := wireNames[name]; wasKey {
			name = part
			index = ""
		} else if ok {
			name = known
		} else {
			name = hump.ReplaceAllStringFunc(name, func(s string) string { return "_" + strings.ToLower(s) })
		}
		out += "." + name + index
	}
	return out
}
