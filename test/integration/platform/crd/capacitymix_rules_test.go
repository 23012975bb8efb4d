// SPDX-License-Identifier: Apache-2.0

package crd

// capacityMixCases has the rules of CapacityMix but those of its selector.
var capacityMixCases = ruleCases{
	"spotPercent must be between 0 and 100": {
		accepted: []string{"{selector: {}, spotPercent: 0}", "{selector: {}, spotPercent: 100}"},
		rejected: []rejected{
			{"{selector: {}, spotPercent: 101}", outOfRange("spotPercent", "101", "less than or equal to 100", "spotPercent must be between 0 and 100")},
			{"{selector: {}, spotPercent: -1}", outOfRange("spotPercent", "-1", "greater than or equal to 0", "spotPercent must be between 0 and 100")},
		},
	},
	"minOnDemand must be between 0 and 1000000": {
		accepted: []string{"{selector: {}, spotPercent: 50, minOnDemand: 0}", "{selector: {}, spotPercent: 50, minOnDemand: 1000000}"},
		rejected: []rejected{
			{"{selector: {}, spotPercent: 50, minOnDemand: -1}", outOfRange("minOnDemand", "-1", "greater than or equal to 0", "minOnDemand must be between 0 and 1000000")},
			{"{selector: {}, spotPercent: 50, minOnDemand: 3000000000}", outOfRange("minOnDemand", "3000000000", "less than or equal to 1000000", "minOnDemand must be between 0 and 1000000")},
		},
	},
	"maxConcurrent must be between 1 and 100": {
		accepted: []string{"{selector: {}, spotPercent: 50, rebalance: {maxConcurrent: 1}}", "{selector: {}, spotPercent: 50, rebalance: {maxConcurrent: 100}}"},
		rejected: []rejected{
			{"{selector: {}, spotPercent: 50, rebalance: {maxConcurrent: 0}}", outOfRange("rebalance.maxConcurrent", "0", "greater than or equal to 1", "maxConcurrent must be between 1 and 100")},
			{"{selector: {}, spotPercent: 50, rebalance: {maxConcurrent: 101}}", outOfRange("rebalance.maxConcurrent", "101", "less than or equal to 100", "maxConcurrent must be between 1 and 100")},
		},
	},
	"stabilizationSeconds must be between 0 and 86400": {
		accepted: []string{"{selector: {}, spotPercent: 50, rebalance: {stabilizationSeconds: 0}}", "{selector: {}, spotPercent: 50, rebalance: {stabilizationSeconds: 86400}}"},
		rejected: []rejected{
			{"{selector: {}, spotPercent: 50, rebalance: {stabilizationSeconds: -1}}", outOfRange("rebalance.stabilizationSeconds", "-1", "greater than or equal to 0", "stabilizationSeconds must be between 0 and 86400")},
			{"{selector: {}, spotPercent: 50, rebalance: {stabilizationSeconds: 86401}}", outOfRange("rebalance.stabilizationSeconds", "86401", "less than or equal to 86400", "stabilizationSeconds must be between 0 and 86400")},
		},
	},
	"durationSeconds must be between 60 and 604800": {
		accepted: []string{"{selector: {}, spotPercent: 50, rebalance: {windows: [{schedule: '0 22 * * *', durationSeconds: 60}]}}", "{selector: {}, spotPercent: 50, rebalance: {windows: [{schedule: '0 22 * * *', durationSeconds: 604800}]}}"},
		rejected: []rejected{
			{"{selector: {}, spotPercent: 50, rebalance: {windows: [{schedule: '0 22 * * *', durationSeconds: 59}]}}", outOfRange("rebalance.windows[0].durationSeconds", "59", "greater than or equal to 60", "durationSeconds must be between 60 and 604800")},
			{"{selector: {}, spotPercent: 50, rebalance: {windows: [{schedule: '0 22 * * *', durationSeconds: 604801}]}}", outOfRange("rebalance.windows[0].durationSeconds", "604801", "less than or equal to 604800", "durationSeconds must be between 60 and 604800")},
		},
	},
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
	"maxSpot must be between 0 and 1000000": {
		accepted: []string{"{selector: {}, spotPercent: 50, maxSpot: 0}", "{selector: {}, spotPercent: 50, maxSpot: 1000000}"},
		rejected: []rejected{
			{"{selector: {}, spotPercent: 50, maxSpot: -1}", outOfRange("maxSpot", "-1", "greater than or equal to 0", "maxSpot must be between 0 and 1000000")},
			{"{selector: {}, spotPercent: 50, maxSpot: 1000001}", outOfRange("maxSpot", "1000001", "less than or equal to 1000000", "maxSpot must be between 0 and 1000000")},
		},
	},
	"spotWaitSeconds must be between 0 and 86400": {
		accepted: []string{"{selector: {}, spotPercent: 50, spotWaitSeconds: 0}", "{selector: {}, spotPercent: 50, spotWaitSeconds: 86400}"},
		rejected: []rejected{
			{"{selector: {}, spotPercent: 50, spotWaitSeconds: -1}", outOfRange("spotWaitSeconds", "-1", "greater than or equal to 0", "spotWaitSeconds must be between 0 and 86400")},
			{"{selector: {}, spotPercent: 50, spotWaitSeconds: 86401}", outOfRange("spotWaitSeconds", "86401", "less than or equal to 86400", "spotWaitSeconds must be between 0 and 86400")},
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
