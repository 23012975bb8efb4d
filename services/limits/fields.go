// SPDX-License-Identifier: Apache-2.0

package limits

import "strings"

// The CRD's names of fields, and the names that callers use. What is below nodeSelector and nodeAffinity is JSON
// text on either side, and has the same names.
var wireNames = map[string]string{
	"cpuLimit": "cpu_limit", "memoryLimit": "memory_limit", "ephemeralStorage": "ephemeral_storage",
	"nodeSelector": "node_selector", "nodeAffinity": "node_affinity",
}

// wireField is the name of a field of the CRD's in the proto.
func wireField(field string) string {
	field = restField(field)
	rest, ok := strings.CutPrefix(field, "limits.")
	if !ok {
		return field
	}
	end := strings.IndexAny(rest, ".[")
	if end < 0 {
		end = len(rest)
	}
	name, below := rest[:end], rest[end:]
	if name == "volumes" {
		below = strings.Replace(below, ".storageClass", ".storage_class", 1)
	}
	if known, ok := wireNames[name]; ok {
		name = known
	}
	return "limits." + name + below
}

// restField is the name of a field of the CRD's in the body of a REST call.
func restField(field string) string {
	switch {
	case field == "spec":
		return "limits"
	case field == "spec.description":
		return "description"
	case strings.HasPrefix(field, "spec."):
		return "limits." + strings.TrimPrefix(field, "spec.")
	}
	return strings.TrimPrefix(field, "metadata.")
}
