// SPDX-License-Identifier: Apache-2.0

package crd

import "fmt"

// held is a Reservation of a CPU for all pods, with more fields.
func held(fields string) string { return "{podSelector: {}, cpu: 1, " + fields + "}" }

// extended is held with an extended resource.
func extended(name, number string) string {
	return held("extendedResources: {" + name + ": " + number + "}")
}

const podName = "lower-case letters, digits, '-' or '.', with a letter or digit at both ends"

// reservationCases has the rules of Reservation but those of its selectors, its tolerations and of what must not be changed.
var reservationCases = merged(
	quantityCases("cpu", "spec.cpu", "500m or 2", func(v string) string { return "{podSelector: {}, cpu: " + v + "}" }),
	quantityCases("memory", "spec.memory", "512Mi or 2Gi", func(v string) string { return "{podSelector: {}, memory: " + v + "}" }),
	quantityCases("ephemeralStorage", "spec.ephemeralStorage", "512Mi or 10Gi", func(v string) string {
		return "{podSelector: {}, ephemeralStorage: " + v + "}"
	}),
	ruleCases{
		"spec must have exactly one of podSelector and podName": {
			accepted: []string{"{podSelector: {}, cpu: 1}", "{podName: web-0, cpu: 1}"},
			rejected: []rejected{
				{"{cpu: 1}", `spec: Invalid value: spec must have exactly one of podSelector and podName`},
				{"{podSelector: {}, podName: web-0, cpu: 1}", `spec: Invalid value: spec must have exactly one of podSelector and podName`},
			},
		},
		"spec must have at least one of cpu, memory, ephemeralStorage and extendedResources": {
			accepted: []string{
				"{podSelector: {}, cpu: 1}", "{podSelector: {}, memory: 1Gi}", "{podSelector: {}, ephemeralStorage: 1Gi}",
				"{podSelector: {}, extendedResources: {nvidia.com/gpu: 1}}",
			},
			rejected: []rejected{
				{"{podSelector: {}}", `spec: Invalid value: spec must have at least one of cpu, memory, ephemeralStorage and extendedResources`},
				{"{podSelector: {}, extendedResources: {}}", `spec: Invalid value: spec must have at least one of cpu, memory, ephemeralStorage and extendedResources`},
			},
		},
		"replicas must be 1 with podName and with nodeName": {
			accepted: []string{"{podName: web-0, cpu: 1, replicas: 1}", "{podName: web-0, cpu: 1}", held("replicas: 2"), held("nodeName: a, replicas: 1")},
			rejected: []rejected{
				{"{podName: web-0, cpu: 1, replicas: 2}", `spec.replicas: Invalid value: replicas must be 1 with podName and with nodeName`},
				{held("nodeName: a, replicas: 2"), `spec.replicas: Invalid value: replicas must be 1 with podName and with nodeName`},
			},
		},
		"nodeName must be the name of a node: " + podName: {
			accepted: []string{held("nodeName: n-0.a")},
			rejected: refuses(func(name string) string { return held("nodeName: " + name) },
				badLabel("spec.nodeName", "string", "nodeName must be the name of a node", podName), "Node", "n_0", "n-"),
		},
		"podName must be the name of a pod: " + podName: {
			accepted: []string{"{podName: db-0.a, cpu: 1}", "{podName: '0', cpu: 1}"},
			rejected: refuses(func(name string) string { return "{podName: " + name + ", cpu: 1}" },
				badLabel("spec.podName", "string", "podName must be the name of a pod", podName), "Web-0", "web_0", "web-", "a..b", ""),
		},
		"extendedResources must have names with a DNS prefix, such as nvidia.com/gpu": {
			accepted: []string{extended("nvidia.com/gpu", "1"), extended(longestPrefix+"/"+longestName, "1")},
			rejected: refuses(func(name string) string { return extended(name, "1") }, func(name string) string {
				return fmt.Sprintf(`spec.extendedResources: Invalid value: extendedResources must have names with a DNS prefix, such as nvidia.com/gpu, not '%s'`, name)
			}, "gpu", "/gpu", "a/b/c", "Nvidia.com/gpu", "p"+longestPrefix+"/gpu", "nvidia.com/n"+longestName),
		},
	},
)

// immutableFields are those that must not be changed, with two values.
var immutableFields = map[string][2]string{
	"cpu":               {"1", "2"},
	"memory":            {"1Gi", "2Gi"},
	"ephemeralStorage":  {"1Gi", "2Gi"},
	"extendedResources": {"{nvidia.com/gpu: 1}", "{nvidia.com/gpu: 2}"},
	"nodeSelector":      {"{disk: ssd}", "{disk: hdd}"},
	"tolerations":       {"[{key: a}]", "[{key: b}]"},
	"nodeName":          {"a", "b"},
	"schedulerName":     {"berth-scheduler", "default-scheduler"},
	"allocateOnce":      {"true", "false"},
}

// immutableCases are changes, additions and removals of each field that must not be changed.
func immutableCases() ruleCases {
	refused := func(field string) string {
		return fmt.Sprintf("spec.%[1]s: Invalid value: %[1]s must not be changed", field)
	}
	other := "{podName: web-0, cpu: 1}"
	cases := ruleCases{
		"podSelector must not be changed": {changes: []change{
			{"{podSelector: {matchLabels: {app: web}}, cpu: 1}", "{podSelector: {matchLabels: {app: web}}, cpu: 1, replicas: 100, expirationSeconds: 1}", ""},
			{"{podSelector: {matchLabels: {app: web}}, cpu: 1}", "{podSelector: {matchLabels: {app: web}}, cpu: 1, ttlSecondsAfterFinished: 0}", ""},
			{"{podSelector: {matchLabels: {app: web}}, cpu: 1}", "{podSelector: {}, cpu: 1}", refused("podSelector")},
			{"{podSelector: {}, cpu: 1}", other, "[" + refused("podSelector") + ", " + refused("podName") + "]"},
		}},
		"podName must not be changed": {changes: []change{
			{other, "{podName: web-0, cpu: 1, replicas: 1}", ""},
			{other, "{podName: web-1, cpu: 1}", refused("podName")},
			{other, "{podSelector: {}, cpu: 1}", "[" + refused("podSelector") + ", " + refused("podName") + "]"},
		}},
	}
	for field, values := range immutableFields {
		// Each has another resource, so that no other rule is broken without the field.
		spec := func(value string) string {
			more := "cpu: 3"
			if field == "cpu" {
				more = "memory: 3Gi"
			}
			if value != "" {
				value = ", " + field + ": " + value
			}
			return "{podSelector: {}, " + more + value + "}"
		}
		cases[field+" must not be changed"] = ruleCase{changes: []change{
			{spec(values[0]), spec(values[0]), ""},
			{spec(values[0]), spec(values[1]), refused(field)},
			{spec(values[0]), spec(""), refused(field)},
			{spec(""), spec(values[0]), refused(field)},
		}}
	}
	return cases
}
