// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// bounds are the cases of a number from least to most, above which above is. Spec is that of a mix with the number as its verb.
func bounds(path string, least, most, above int, spec string) ruleCases {
	message := fmt.Sprintf("%s must be between %d and %d", path[strings.LastIndex(path, ".")+1:], least, most)
	with := func(n int) string { return fmt.Sprintf("{selector: {}, "+spec+"}", n) }
	return ruleCases{message: {
		accepted: []string{with(least), with(most)},
		rejected: []rejected{
			{with(least - 1), outOfRange(path, strconv.Itoa(least-1), fmt.Sprint("greater than or equal to ", least), message)},
			{with(above), outOfRange(path, strconv.Itoa(above), fmt.Sprint("less than or equal to ", most), message)},
		},
	}}
}

// capacityMixCases has the rules of CapacityMix but those of its selector.
var capacityMixCases = merged(
	bounds("spotPercent", 0, 100, 101, "spotPercent: %d"),
	bounds("minOnDemand", 0, 1000000, 1000001, "spotPercent: 50, minOnDemand: %d"),
	bounds("maxSpot", 0, 1000000, 1000001, "spotPercent: 50, maxSpot: %d"),
	bounds("spotWaitSeconds", 0, 86400, 86401, "spotPercent: 50, spotWaitSeconds: %d"),
	bounds("rebalance.maxConcurrent", 1, 100, 101, "spotPercent: 50, rebalance: {maxConcurrent: %d}"),
	bounds("rebalance.maxMovesPerHour", 1, 1000, 1001, "spotPercent: 50, rebalance: {maxMovesPerHour: %d}"),
	bounds("rebalance.stabilizationSeconds", 0, 86400, 86401, "spotPercent: 50, rebalance: {stabilizationSeconds: %d}"),
	bounds("rebalance.windows[0].durationSeconds", 60, 604800, 604801,
		"spotPercent: 50, rebalance: {windows: [{schedule: '0 22 * * *', durationSeconds: %d}]}"),
	bounds("maxPerDomain[0].maxPercent", 1, 100, 101, "spotPercent: 50, maxPerDomain: [{topologyKey: zone, maxPercent: %d}]"),
	bounds("maxPerDomain[0].maxCount", 1, 1000000, 1000001, "spotPercent: 50, maxPerDomain: [{topologyKey: zone, maxCount: %d}]"),
	otherCases,
)

// otherCases are of the rules that are not about how great a number is.
var otherCases = ruleCases{
	"schedule must have five fields separated by single spaces, as in cron: minute hour day-of-month month day-of-week": {
		accepted: []string{"{selector: {}, spotPercent: 50, rebalance: {windows: [{schedule: '0 22 * * 1-5', durationSeconds: 3600, timeZone: Europe/Berlin}]}}"},
		rejected: []rejected{
			{
				"{selector: {}, spotPercent: 50, rebalance: {windows: [{schedule: '0 22 * * * *', durationSeconds: 3600}]}}",
				`spec.rebalance.windows[0].schedule: Invalid value: "0 22 * * * *": schedule must have five fields separated by single spaces, as in cron, not '0 22 * * * *': minute hour day-of-month month day-of-week`,
			},
			{
				"{selector: {}, spotPercent: 50, rebalance: {windows: [{schedule: '@midnight', durationSeconds: 3600}]}}",
				`spec.rebalance.windows[0].schedule: Invalid value: "@midnight": schedule must have five fields separated by single spaces, as in cron, not '@midnight': minute hour day-of-month month day-of-week`,
			},
		},
	},
	"spotWaitSeconds has no effect with whenSpotUnavailable Wait: remove it or use OnDemand": {
		accepted: []string{
			"{selector: {}, spotPercent: 50, spotWaitSeconds: 0, whenSpotUnavailable: Wait}",
			"{selector: {}, spotPercent: 50, spotWaitSeconds: 30, whenSpotUnavailable: OnDemand}",
			"{selector: {}, spotPercent: 50, spotWaitSeconds: 30}",
		},
		rejected: []rejected{
			{"{selector: {}, spotPercent: 50, spotWaitSeconds: 30, whenSpotUnavailable: Wait}", `spec.spotWaitSeconds: Invalid value: spotWaitSeconds has no effect with whenSpotUnavailable Wait: remove it or use OnDemand`},
		},
	},
	"spreadSpotOver must hold label keys: " + labelKey: {
		accepted: []string{
			"{selector: {}, spotPercent: 50, spreadSpotOver: [topology.kubernetes.io/zone, Rack_1.a-b]}",
			"{selector: {}, spotPercent: 50, spreadSpotOver: [" + longestPrefix + "/" + longestName + "]}",
		},
		rejected: refuses(func(key string) string { return "{selector: {}, spotPercent: 50, spreadSpotOver: [zone, " + key + "]}" },
			badLabel("spec.spreadSpotOver[1]", "string", "spreadSpotOver must hold label keys", labelKey),
			"a zone", "", "Example.com/zone", "a"+longestPrefix+"/a", "a"+longestName),
	},
	"topologyKey must be a label key: " + labelKey: {
		accepted: []string{
			"{selector: {}, spotPercent: 50, maxPerDomain: [{topologyKey: topology.kubernetes.io/zone, maxCount: 2}, {topologyKey: Rack_1.a-b, maxPercent: 50}]}",
			"{selector: {}, spotPercent: 50, maxPerDomain: [{topologyKey: " + longestPrefix + "/" + longestName + ", maxCount: 2}]}",
		},
		rejected: refuses(func(key string) string {
			return "{selector: {}, spotPercent: 50, maxPerDomain: [{topologyKey: " + key + ", maxCount: 2}]}"
		}, badLabel("spec.maxPerDomain[0].topologyKey", "string", "topologyKey must be a label key", labelKey),
			"a zone", "", "Example.com/zone", "a"+longestPrefix+"/a", "a"+longestName),
	},
	"maxPerDomain must have exactly one of maxPercent and maxCount": {
		accepted: []string{"{selector: {}, spotPercent: 50, maxPerDomain: [{topologyKey: zone, maxCount: 2, whenUnsatisfiable: ScheduleAnyway}]}"},
		rejected: []rejected{
			{"{selector: {}, spotPercent: 50, maxPerDomain: [{topologyKey: zone}]}", `spec.maxPerDomain[0]: Invalid value: maxPerDomain must have exactly one of maxPercent and maxCount`},
			{"{selector: {}, spotPercent: 50, maxPerDomain: [{topologyKey: zone, maxCount: 2, maxPercent: 50}]}", `spec.maxPerDomain[0]: Invalid value: maxPerDomain must have exactly one of maxPercent and maxCount`},
		},
	},
	"spreadSpotOver must not hold the same label key twice": {
		accepted: []string{"{selector: {}, spotPercent: 50, spreadSpotOver: [a, b, c, d]}"},
		rejected: []rejected{
			{"{selector: {}, spotPercent: 50, spreadSpotOver: [zone, rack, zone]}", `spec.spreadSpotOver: Invalid value: spreadSpotOver must not hold the same label key twice`},
		},
	},
}

// mixTolerationCases has the rules of the tolerations that the pods of a capacity type get. What these refuse, the API
// server would refuse of pods: their gate would stay, and the webhook would be in the way of their creation.
func mixTolerationCases(capacityType string) ruleCases {
	return tolerationCases("spec.tolerations."+capacityType, func(toleration string) string {
		return "{selector: {}, spotPercent: 50, tolerations: {" + capacityType + ": [" + toleration + "]}}"
	})
}

// tolerationCases has the rules of a list of tolerations. In makes the spec around one.
func tolerationCases(list string, in func(toleration string) string) ruleCases {
	path := list + "[0]"
	broken := func(field, message string) string {
		return fmt.Sprintf(`%s.%s: Invalid value: %s`, path, field, message)
	}

	return ruleCases{
		"key may be empty with operator Exists only": {
			accepted: []string{in("{operator: Exists}"), in("{key: '', operator: Exists, effect: NoExecute}"), in("{key: spot}"), in("{key: spot, operator: Equal, value: 'true'}")},
			rejected: []rejected{
				{in("{}"), broken("key", "key may be empty with operator Exists only")},
				{in("{key: '', operator: Equal, value: a}"), broken("key", "key may be empty with operator Exists only")},
			},
		},
		"key must be a label key: " + labelKey: {
			accepted: []string{in("{key: kubernetes.azure.com/scalesetpriority, value: spot}"), in("{key: " + longestPrefix + "/" + longestName + "}")},
			rejected: refuses(func(key string) string { return in("{key: " + key + "}") },
				badLabel(path+".key", "string", "key must be a label key", labelKey), "a taint", "a"+longestPrefix+"/a"),
		},
		"value must be a label value: " + labelValue: {
			accepted: []string{in("{key: a, value: ''}"), in("{key: a, value: " + longestName + "}")},
			rejected: []rejected{
				{in("{key: a, value: b c}"), notALabel(path+".value", "string", "value must be a label value", "b c", labelValue)},
			},
		},
		"value must be empty with operator Exists": {
			accepted: []string{in("{key: a, operator: Exists, value: ''}"), in("{key: a, operator: Exists}")},
			rejected: []rejected{{in("{key: a, operator: Exists, value: b}"), broken("value", "value must be empty with operator Exists")}},
		},
		"value must be a whole number of at most 18 digits with operator Gt or Lt": {
			accepted: []string{in("{key: a, operator: Gt, value: '0'}"), in("{key: a, operator: Lt, value: '999999999999999999'}")},
			rejected: []rejected{
				{in("{key: a, operator: Gt}"), broken("value", "value must be a whole number of at most 18 digits with operator Gt or Lt")},
				{in("{key: a, operator: Lt, value: many}"), broken("value", "value must be a whole number of at most 18 digits with operator Gt or Lt")},
				{in("{key: a, operator: Lt, value: '007'}"), broken("value", "value must be a whole number of at most 18 digits with operator Gt or Lt")},
				{in("{key: a, operator: Gt, value: '1000000000000000000'}"), broken("value", "value must be a whole number of at most 18 digits with operator Gt or Lt")},
			},
		},
		"tolerationSeconds may be set with effect NoExecute only": {
			accepted: []string{in("{key: a, effect: NoExecute, tolerationSeconds: 0}"), in("{key: a, effect: NoExecute, tolerationSeconds: 2147483647}")},
			rejected: []rejected{
				{in("{key: a, tolerationSeconds: 0}"), broken("tolerationSeconds", "tolerationSeconds may be set with effect NoExecute only")},
				{in("{key: a, effect: NoSchedule, tolerationSeconds: 9}"), broken("tolerationSeconds", "tolerationSeconds may be set with effect NoExecute only")},
			},
		},
	}
}

// TestSchemaOfGates has what the schema itself refuses of the fields for pods with a gate.
func TestSchemaOfGates(t *testing.T) {
	t.Parallel()
	mix := func(fields string) string { return "{selector: {}, spotPercent: 50, " + fields + "}" }
	several := func(n int) string {
		return strings.TrimSuffix(strings.Repeat("{key: "+longestPrefix+"/"+longestName+", value: "+longestName+"}, ", n), ", ")
	}
	seconds := func(n string) string {
		return mix("tolerations: {spot: [{key: a, effect: NoExecute, tolerationSeconds: " + n + "}]}")
	}
	checkSchema(t, capacityMix, map[string]schemaCase{
		"no tolerations are accepted":            {mix("tolerations: {}"), ""},
		"8 of the longest for each are accepted": {mix("tolerations: {spot: [" + several(8) + "], onDemand: [" + several(8) + "]}"), ""},
		"a ninth for spot is refused":            {mix("tolerations: {spot: [" + several(9) + "]}"), "spec.tolerations.spot: Too many: 9: must have at most 8 items"},
		"a ninth for on-demand is refused":       {mix("tolerations: {onDemand: [" + several(9) + "]}"), "spec.tolerations.onDemand: Too many: 9: must have at most 8 items"},
		"a third type is refused":                {mix("tolerations: {reserved: []}"), `unknown field "spec.tolerations.reserved"`},
		"an unknown operator is refused":         {mix("tolerations: {spot: [{key: a, operator: In}]}"), `spec.tolerations.spot[0].operator: Unsupported value: "In": supported values: "Equal", "Exists", "Gt", "Lt"`},
		"an unknown effect is refused":           {mix("tolerations: {spot: [{key: a, effect: NoRun}]}"), `spec.tolerations.spot[0].effect: Unsupported value: "NoRun": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`},
		"a key that is too long is refused":      {mix("tolerations: {spot: [{key: a" + longestPrefix + "/" + longestName + "}]}"), "spec.tolerations.spot[0].key: Too long: may not be more than 317 bytes"},
		"a value that is too long is refused":    {mix("tolerations: {spot: [{key: a, value: a" + longestName + "}]}"), "spec.tolerations.spot[0].value: Too long: may not be more than 63 bytes"},
		"less than no time is refused":           {seconds("-1"), "spec.tolerations.spot[0].tolerationSeconds in body should be greater than or equal to 0"},
		"more time than there is is refused":     {seconds("2147483648"), "spec.tolerations.spot[0].tolerationSeconds in body should be less than or equal to 2147483647"},
		"waiting for nodes is accepted":          {mix("rebalance: {provisioning: Wait}"), ""},
		"asking for nodes is accepted":           {mix("rebalance: {provisioning: Placeholder}"), ""},
		"evicting first is accepted":             {mix("rebalance: {strategy: Evict}"), ""},
		"replacing first is accepted":            {mix("rebalance: {strategy: Surge}"), ""},
		"replacing where possible is accepted":   {mix("rebalance: {strategy: SurgeOrEvict}"), ""},
		"another strategy is refused":            {mix("rebalance: {strategy: Hope}"), `spec.rebalance.strategy: Unsupported value: "Hope": supported values: "Evict", "Surge", "SurgeOrEvict"`},
		"another way to nodes is refused":        {mix("rebalance: {provisioning: Buy}"), `spec.rebalance.provisioning: Unsupported value: "Buy": supported values: "Wait", "Placeholder"`},
	})
}
