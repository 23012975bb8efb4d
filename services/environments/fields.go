// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"berth.dev/berth/apis/v1alpha1"
)

// The CRD's names of fields, and the names that callers use. What is not here has the same name in snake case.
var wireNames = map[string]string{
	"displayName": "name", "stack": "application_stack", "tlsEnabled": "ssl_enabled", "env": "environment_variables",
	"cpu": "cpu_cores", "memory": "memory_mb", "disk": "disk_mb",
}

// keyed are maps: what follows one is a key of the caller's, which may have dots.
var keyed = map[string]bool{"labels": true, "env": true}

var (
	hump = regexp.MustCompile(`[A-Z]+`)
	// service matches the path of an item of the list of additional services, as the API server or a check writes it.
	serviceField = regexp.MustCompile(`^spec\.stack\.additionalServices\[([^\]]*)\](?:\.name$|\.container)?`)
)

// wireField returns what calls a field of the CRD's, of a spec, by its name in the proto.
func wireField(spec *v1alpha1.EnvironmentSpec) func(field string) string {
	return func(field string) string {
		switch {
		case field == "metadata.name":
			return "spec.name"
		case field == "spec.network.name":
			return "spec.network.network_name"
		case field != "spec" && !strings.HasPrefix(field, "spec."):
			return field
		}
		out := ""
		if at := serviceField.FindStringSubmatchIndex(field); at != nil {
			// A list here, a map there: its containers have no field of their own.
			out = fmt.Sprintf("spec.application_stack.additional_services[%s]", serviceAt(spec, field[at[2]:at[3]]))
			if field = strings.TrimPrefix(field[at[1]:], "."); field == "" {
				return out
			}
		}
		return strings.TrimPrefix(out+"."+snake(field), ".")
	}
}

// serviceAt is the name of an additional service, which a path has by its place or by its name.
func serviceAt(spec *v1alpha1.EnvironmentSpec, place string) string {
	if i, err := strconv.Atoi(place); err == nil && i >= 0 && i < len(spec.Stack.AdditionalServices) {
		return spec.Stack.AdditionalServices[i].Name
	}
	return strings.Trim(place, `"`)
}

func snake(path string) string {
	var out []string
	for path != "" {
		part, rest, _ := strings.Cut(path, ".")
		name, index := part, ""
		if i := strings.IndexByte(part, '['); i >= 0 {
			name, index = part[:i], part[i:]
		}
		if keyed[name] {
			return strings.Join(append(out, wireName(name)+keyOf(path[len(name):])), ".")
		}
		out = append(out, wireName(name)+index)
		path = rest
	}
	return strings.Join(out, ".")
}

// keyOf is the key behind the name of a map, in brackets however it was written.
func keyOf(behind string) string {
	if key, dotted := strings.CutPrefix(behind, "."); dotted {
		return "[" + key + "]"
	}
	return behind
}

func wireName(name string) string {
	if known, ok := wireNames[name]; ok {
		return known
	}
	return hump.ReplaceAllStringFunc(name, func(s string) string { return "_" + strings.ToLower(s) })
}
