// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"strconv"
	"strings"
)

// resourceLimitCases has the rules of ResourceLimit but those of its selector and of its node terms.
var resourceLimitCases = merged(
	quantityCases("cpu", "spec.cpu", "500m or 2", func(v string) string { return "{cpu: " + v + "}" }),
	quantityCases("cpuLimit", "spec.cpuLimit", "500m or 2", func(v string) string { return "{cpuLimit: " + v + "}" }),
	quantityCases("memory", "spec.memory", "512Mi or 2Gi", func(v string) string { return "{memory: " + v + "}" }),
	quantityCases("memoryLimit", "spec.memoryLimit", "512Mi or 2Gi", func(v string) string { return "{memoryLimit: " + v + "}" }),
	quantityCases("ephemeralStorage", "spec.ephemeralStorage", "512Mi or 2Gi", func(v string) string { return "{ephemeralStorage: " + v + "}" }),
	quantityCases("size", "spec.volumes[data].size", "512Mi or 2Gi", func(v string) string { return "{volumes: {data: {size: " + v + "}}}" }),
	nodeSelectorCases(func(selector string) string { return "{nodeSelector: " + selector + "}" }),
	ruleCases{
		"metadata.name must be at most 63 characters, so that it is a valid label value": {
			accepted: []string{"{metadata: {name: " + longestName + "}, spec: {}}"},
			rejected: []rejected{
				{"{metadata: {name: n" + longestName + "}, spec: {}}", `metadata: Invalid value: metadata.name must be at most 63 characters, so that it is a valid label value`},
			},
		},
		"cpuLimit must not be below cpu": {
			accepted: []string{"{cpu: 1, cpuLimit: 1}", "{cpu: 500m, cpuLimit: 2}", "{cpu: '0.5', cpuLimit: 500m}", "{cpuLimit: 1}"},
			rejected: []rejected{
				{"{cpu: 2, cpuLimit: 1500m}", `spec.cpuLimit: Invalid value: cpuLimit must not be below cpu: 1500m is below 2`},
				{"{cpu: 1500m, cpuLimit: 1}", `spec.cpuLimit: Invalid value: cpuLimit must not be below cpu: 1 is below 1500m`},
			},
		},
		"memoryLimit must not be below memory": {
			accepted: []string{"{memory: 1Gi, memoryLimit: 1024Mi}", "{memory: 1073741824, memoryLimit: 1Gi}", "{memoryLimit: 1Gi}"},
			rejected: []rejected{
				{"{memory: 1Gi, memoryLimit: 1G}", `spec.memoryLimit: Invalid value: memoryLimit must not be below memory: 1G is below 1Gi`},
				{"{memory: 1073741825, memoryLimit: 1Gi}", `spec.memoryLimit: Invalid value: memoryLimit must not be below memory: 1Gi is below 1073741825`},
			},
		},
		"volumes must have names of at most 63 lower-case letters, digits or '-' that start and end with a letter or digit": {
			accepted: []string{"{volumes: {data: {size: 1Gi}, a-1: {size: 1Gi}, " + longestName + ": {size: 1Gi}}}"},
			rejected: refuses(func(name string) string { return "{volumes: {data: {size: 1Gi}, " + name + ": {size: 1Gi}}}" }, volumeName,
				"Data", "-data", "", "my.data", "n"+longestName),
		},
		"volumes must not have the same mountPath twice": {
			accepted: []string{"{volumes: {a: {size: 1Gi, mountPath: /a}, b: {size: 1Gi, mountPath: /a/b}, c: {size: 1Gi}, d: {size: 1Gi}}}"},
			rejected: []rejected{
				{"{volumes: {a: {size: 1Gi, mountPath: /data}, b: {size: 1Gi, mountPath: /data}}}", `spec.volumes: Invalid value: volumes must not have the same mountPath twice`},
				{"{volumes: {a: {size: 1Gi, mountPath: /volumes/b}, b: {size: 1Gi}}}", `spec.volumes: Invalid value: volumes must not have the same mountPath twice`},
			},
		},
		"storageClass must be the name of a StorageClass: lower-case letters, digits, '-' or '.', with a letter or digit at both ends": {
			accepted: []string{"{volumes: {data: {size: 1Gi, storageClass: fast-ssd.example.com}}}"},
			rejected: refuses(func(class string) string {
				return "{volumes: {data: {size: 1Gi, storageClass: " + class + "}}}"
			}, storageClass, "Fast", "fast_ssd", "fast-"),
		},
		"mountPath must be an absolute path without ':'": {
			accepted: []string{"{volumes: {data: {size: 1Gi, mountPath: /var/lib/data}}}"},
			rejected: refuses(func(path string) string { return "{volumes: {data: {size: 1Gi, mountPath: " + path + "}}}" }, mountPath,
				"data", "/", "", "/a:/b"),
		},
		"nodeSelectorTerms must have at least one term": {
			accepted: []string{"{nodeAffinity: " + required.in("{matchExpressions: [{key: disk, operator: Exists}]}") + "}", "{nodeAffinity: {}}"},
			rejected: []rejected{
				{"{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}", `spec.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Invalid value: nodeSelectorTerms must have at least one term`},
			},
		},
		"weight must be between 1 and 100": {
			accepted: []string{"{nodeAffinity: " + weighted("1") + "}", "{nodeAffinity: " + weighted("100") + "}"},
			rejected: []rejected{
				{"{nodeAffinity: " + weighted("0") + "}", outOfRange(preferredPath+"[0].weight", "0", "greater than or equal to 1", "weight must be between 1 and 100")},
				{"{nodeAffinity: " + weighted("101") + "}", outOfRange(preferredPath+"[0].weight", "101", "less than or equal to 100", "weight must be between 1 and 100")},
			},
		},
	},
)

// quantityPattern is the OpenAPI pattern of a quantity, as the server shows it.
const quantityPattern = `'^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$'`

// quantityCases are those of a field that holds a quantity above 0. In makes the spec around a value.
func quantityCases(field, path, example string, in func(value string) string) ruleCases {
	// Servers of 1.35 show no value of a field that may be a number or a string: the message has to.
	refused := func(shown, value string) string {
		return fmt.Sprintf(`%s: Invalid value: %s: %s must be a quantity above 0, such as %s, not '%s'`, path, shown, field, example, value)
	}
	tooLow := func(value string) string { return refused(strconv.Quote(value), value) }
	notOne := func(value string) string {
		plain := strings.NewReplacer("[", ".", "]", "").Replace(path)
		return fmt.Sprintf(`[%s: Invalid value: %q: %s in body should match %s, %s]`, plain, value, plain, quantityPattern, tooLow(value))
	}
	highest, number, above := "1Pi", "1125899906842624", "1125899906842625"
	if strings.HasPrefix(field, "cpu") {
		highest, number, above = "1M", "1000000", "1000001"
	}
	tooHigh := func(shown string) string {
		return fmt.Sprintf(`%s: Invalid value: %s: %s must be at most %s`, path, shown, field, highest)
	}
	return ruleCases{field + " must be at most " + highest: {
		accepted: []string{in(highest), in(number), in("'" + number + "'"), in("1e3")},
		rejected: []rejected{
			{in(above), tooHigh(above)},
			{in("'" + above + "'"), tooHigh(strconv.Quote(above))},
			{in("1E"), tooHigh(`"1E"`)},
			{in("'9223372036854775807'"), tooHigh(`"9223372036854775807"`)},
			{in("'1e+99'"), tooHigh(`"1e+99"`)},
		},
	}, field + " must be a quantity above 0": {
		accepted: []string{in("1"), in("'1'"), in("500m"), in("1e3"), in("'0.1'")},
		rejected: []rejected{
			{in("'0'"), tooLow("0")},
			{in("0m"), tooLow("0m")},
			{in("-1Gi"), tooLow("-1Gi")},
			{in("0"), refused("0", "0")},
			{in("-2"), refused("-2", "-2")},
			{in("lots"), notOne("lots")},
			{in("1 Gi"), notOne("1 Gi")},
			{in("1GB"), notOne("1GB")},
			{in("''"), notOne("")},
			// An API server that parsed these would not come to an end.
			{in("'1e2147483647'"), tooLow("1e2147483647")},
			{in("'1E-99999999'"), tooLow("1E-99999999")},
		},
	}}
}

func volumeName(name string) string {
	return fmt.Sprintf(`spec.volumes: Invalid value: volumes must have names of at most 63 lower-case letters, digits or '-' that start and end with a letter or digit, not '%s'`, name)
}

func storageClass(name string) string {
	return fmt.Sprintf(`spec.volumes[data].storageClass: Invalid value: %[1]q: storageClass must be the name of a StorageClass, not '%[1]s': lower-case letters, digits, '-' or '.', with a letter or digit at both ends`, name)
}

func mountPath(path string) string {
	return fmt.Sprintf(`spec.volumes[data].mountPath: Invalid value: %[1]q: mountPath must be an absolute path without ':', not '%[1]s'`, path)
}

// preferredPath is the path of preferences, below spec.
const preferredPath = "nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"

// weighted is an affinity with one preference of a weight.
func weighted(weight string) string {
	return "{preferredDuringSchedulingIgnoredDuringExecution: [{weight: " + weight + ", preference: {matchExpressions: [{key: disk, operator: Exists}]}}]}"
}

// termPlace is a place where a term is allowed.
type termPlace struct{ path, before, after string }

var (
	required = termPlace{
		"spec.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]",
		"{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [", "]}}",
	}
	preferred = termPlace{
		"spec." + preferredPath + "[0].preference",
		"{preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: ", "}]}",
	}
)

func (p termPlace) in(term string) string { return p.before + term + p.after }

// nodeTermCases are the rules of a term at one of its places.
func nodeTermCases(at termPlace) ruleCases {
	spec := func(term string) string { return "{nodeAffinity: " + at.in(term) + "}" }
	label := func(requirement string) string { return spec("{matchExpressions: [" + requirement + "]}") }
	field := func(requirement string) string { return spec("{matchFields: [" + requirement + "]}") }
	says := func(path, kind, message string) string {
		_, value, _ := strings.Cut(message, "not '")
		value, _, _ = strings.Cut(value, "'")
		return fmt.Sprintf(`%s.%s: Invalid value: %s%s`, at.path, path, shown(kind, value), message)
	}
	empty := says("matchExpressions", "object", "matchExpressions or matchFields must have at least one condition")
	needed := says("matchExpressions[0].values", "object", "values must not be empty when operator is In or NotIn")
	notNeeded := says("matchExpressions[0].values", "object", "values must be empty when operator is Exists or DoesNotExist")
	number := says("matchExpressions[0].values", "object", "values must be a single integer of at most 18 digits, without a sign, when operator is Gt or Lt")
	return ruleCases{
		"matchExpressions or matchFields must have at least one condition": {
			accepted: []string{label("{key: disk, operator: Exists}"), field("{key: metadata.name, operator: In, values: [node-1]}")},
			rejected: []rejected{{spec("{}"), empty}, {spec("{matchExpressions: []}"), empty}, {spec("{matchExpressions: [], matchFields: []}"), empty}},
		},
		"key must be a label key: " + labelKey: {
			accepted: []string{label("{key: node.kubernetes.io/disk, operator: Exists}")},
			rejected: refuses(func(key string) string { return label("{key: " + key + ", operator: Exists}") },
				badLabel(at.path+".matchExpressions[0].key", "string", "key must be a label key", labelKey), "my disk", "a/b/c"),
		},
		"values must hold label values: " + labelValue: {
			accepted: []string{label("{key: disk, operator: In, values: ['', ssd, Ssd_1.a-b, " + longestName + "]}")},
			rejected: []rejected{
				{label("{key: disk, operator: In, values: [ssd, fast ssd]}"), notALabel(at.path+".matchExpressions[0].values[1]", "string", "values must hold label values", "fast ssd", labelValue)},
				// A node cannot have it either, and the scheduler compiles no such term.
				{label("{key: disk, operator: NotIn, values: ['-1']}"), notALabel(at.path+".matchExpressions[0].values[0]", "string", "values must hold label values", "-1", labelValue)},
			},
		},
		"values must not be empty when operator is In or NotIn": {
			accepted: []string{label("{key: disk, operator: In, values: [ssd]}"), label("{key: disk, operator: NotIn, values: [hdd, tape]}")},
			rejected: []rejected{{label("{key: disk, operator: In}"), needed}, {label("{key: disk, operator: NotIn, values: []}"), needed}},
		},
		"values must be empty when operator is Exists or DoesNotExist": {
			accepted: []string{label("{key: disk, operator: Exists, values: []}"), label("{key: disk, operator: DoesNotExist}")},
			rejected: []rejected{{label("{key: disk, operator: Exists, values: [ssd]}"), notNeeded}, {label("{key: disk, operator: DoesNotExist, values: ['']}"), notNeeded}},
		},
		"values must be a single integer of at most 18 digits, without a sign, when operator is Gt or Lt": {
			accepted: []string{label("{key: cores, operator: Gt, values: ['0']}"), label("{key: cores, operator: Lt, values: ['999999999999999999']}")},
			rejected: []rejected{
				{label("{key: cores, operator: Gt}"), number},
				{label("{key: cores, operator: Gt, values: ['1', '2']}"), number},
				{label("{key: cores, operator: Lt, values: [many]}"), number},
				{label("{key: cores, operator: Lt, values: ['1.5']}"), number},
				{label("{key: cores, operator: Gt, values: ['1000000000000000000']}"), number},
			},
		},
		"key must be metadata.name": {
			accepted: []string{field("{key: metadata.name, operator: NotIn, values: [node-1]}")},
			rejected: []rejected{{field("{key: spec.providerID, operator: In, values: [node-1]}"), says("matchFields[0].key", "string", "key must be metadata.name, not 'spec.providerID'")}},
		},
		"values must be the name of one node": {
			accepted: []string{field("{key: metadata.name, operator: In, values: [node-1]}")},
			rejected: []rejected{{field("{key: metadata.name, operator: In, values: []}"), says("matchFields[0].values", "array", "values must be the name of one node")}},
		},
		"values must hold the name of a node: lower-case letters, digits, '-' or '.', with a letter or digit at both ends": {
			accepted: []string{field("{key: metadata.name, operator: In, values: [ip-10-0-0-1.eu-west-1.compute.internal]}")},
			rejected: []rejected{
				{field("{key: metadata.name, operator: In, values: [Node 1]}"), says("matchFields[0].values[0]", "string", "values must hold the name of a node, not 'Node 1': lower-case letters, digits, '-' or '.', with a letter or digit at both ends")},
			},
		},
	}
}
