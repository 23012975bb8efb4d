// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"strconv"
	"strings"
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
	bounds("minOnDemand", 0, 1000000, 3000000000, "spotPercent: 50, minOnDemand: %d"),
	bounds("maxSpot", 0, 1000000, 1000001, "spotPercent: 50, maxSpot: %d"),
	bounds("spotWaitSeconds", 0, 86400, 86401, "spotPercent: 50, spotWaitSeconds: %d"),
	bounds("rebalance.maxConcurrent", 1, 100, 101, "spotPercent: 50, rebalance: {maxConcurrent: %d}"),
	bounds("rebalance.stabilizationSeconds", 0, 86400, 86401, "spotPercent: 50, rebalance: {stabilizationSeconds: %d}"),
	bounds("rebalance.windows[0].durationSeconds", 60, 604800, 604801,
		"spotPercent: 50, rebalance: {windows: [{schedule: '0 22 * * *', durationSeconds: %d}]}"),
	otherCases,
)

// otherCases are of the rules that are not about how great a number is.
var otherCases = ruleCases{
	"schedule must have five fields separated by single spaces, as in cron: minute hour day-of-month month day-of-week": {
		accepted: []string{"{selector: {}, spotPercent: 50, rebalance: {windows: [{schedule: '0 22 * * 1-5', durationSeconds: 3600, timeZone: Europe/Berlin}]}}"},
		rejected: []rejected{
			{
				"{selector: {}, spotPercent: 50, rebalance: {windows: [{schedule: '0 22 * * * *', durationSeconds: 3600}]}}",
				`spec.rebalance.windows[0].schedule: Invalid value: "string": schedule must have five fields separated by single spaces, as in cron, not '0 22 * * * *': minute hour day-of-month month day-of-week`,
			},
			{
				"{selector: {}, spotPercent: 50, rebalance: {windows: [{schedule: '@midnight', durationSeconds: 3600}]}}",
				`spec.rebalance.windows[0].schedule: Invalid value: "string": schedule must have five fields separated by single spaces, as in cron, not '@midnight': minute hour day-of-month month day-of-week`,
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
			{"{selector: {}, spotPercent: 50, spotWaitSeconds: 30, whenSpotUnavailable: Wait}", `spec.spotWaitSeconds: Invalid value: "object": spotWaitSeconds has no effect with whenSpotUnavailable Wait: remove it or use OnDemand`},
		},
	},
	"spreadSpotOver must hold label keys: " + labelKey: {
		accepted: []string{
			"{selector: {}, spotPercent: 50, spreadSpotOver: [topology.kubernetes.io/zone, Rack_1.a-b]}",
			"{selector: {}, spotPercent: 50, spreadSpotOver: [" + longestPrefix + "/" + longestName + "]}",
		},
		rejected: []rejected{
			{"{selector: {}, spotPercent: 50, spreadSpotOver: [zone, 'a zone']}", notALabel("spec.spreadSpotOver[1]", "string", "spreadSpotOver must hold label keys", "a zone", labelKey)},
			{"{selector: {}, spotPercent: 50, spreadSpotOver: ['']}", notALabel("spec.spreadSpotOver[0]", "string", "spreadSpotOver must hold label keys", "", labelKey)},
			{"{selector: {}, spotPercent: 50, spreadSpotOver: [Example.com/zone]}", notALabel("spec.spreadSpotOver[0]", "string", "spreadSpotOver must hold label keys", "Example.com/zone", labelKey)},
			{"{selector: {}, spotPercent: 50, spreadSpotOver: [a" + longestPrefix + "/a]}", notALabel("spec.spreadSpotOver[0]", "string", "spreadSpotOver must hold label keys", "a"+longestPrefix+"/a", labelKey)},
			{"{selector: {}, spotPercent: 50, spreadSpotOver: [a" + longestName + "]}", notALabel("spec.spreadSpotOver[0]", "string", "spreadSpotOver must hold label keys", "a"+longestName, labelKey)},
		},
	},
	"spreadSpotOver must not hold the same label key twice": {
		accepted: []string{"{selector: {}, spotPercent: 50, spreadSpotOver: [a, b, c, d]}"},
		rejected: []rejected{
			{"{selector: {}, spotPercent: 50, spreadSpotOver: [zone, rack, zone]}", `spec.spreadSpotOver: Invalid value: "array": spreadSpotOver must not hold the same label key twice`},
		},
	},
}
