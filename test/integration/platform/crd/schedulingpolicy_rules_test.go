// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"strconv"
	"strings"
)

// scored is a policy for all pods with a score.
func scored(score string) string { return "{podSelector: {}, score: " + score + "}" }

// bound is a policy for all pods that binds them in a way.
func bound(bind string) string { return "{podSelector: {}, bind: {" + bind + "}}" }

// function is a policy with one function.
func function(fields string) string {
	return scored("{functions: [{name: Spreading, " + fields + "}]}")
}

// besides is function with a second one, whose coefficient is above 0.
func besides(fields string) string {
	return scored("{functions: [{name: Spreading, " + fields + "}, {name: Binpacking}]}")
}

// schedulingPolicyCases has the rules of SchedulingPolicy but those of its selector.
var schedulingPolicyCases = ruleCases{
	"score must have exactly one of preset and functions": {
		accepted: []string{scored("{preset: Pack}"), scored("{preset: Pack, functions: []}"), scored("{functions: [{name: Spreading}]}"), "{podSelector: {}}"},
		rejected: []rejected{
			{scored("{preset: Pack, functions: [{name: Spreading}]}"), `spec.score: Invalid value: score must have exactly one of preset and functions`},
			{scored("{}"), `spec.score: Invalid value: score must have exactly one of preset and functions`},
			{scored("{functions: []}"), `spec.score: Invalid value: score must have exactly one of preset and functions`},
		},
	},
	"functions must have at least one coefficient above 0": {
		accepted: []string{
			scored("{functions: [{name: Spreading, coefficient: 0}, {name: Binpacking, coefficient: '0.1'}]}"),
			scored("{functions: [{name: Spreading, coefficient: 0}, {name: Binpacking}]}"),
			scored("{functions: [{name: Spreading, weight: Low}]}"),
		},
		rejected: []rejected{
			{function("coefficient: 0"), `spec.score.functions: Invalid value: functions must have at least one coefficient above 0`},
			{scored("{functions: [{name: Spreading, coefficient: 0}, {name: Binpacking, coefficient: '0.0'}]}"), `spec.score.functions: Invalid value: functions must have at least one coefficient above 0`},
		},
	},
	"coefficient must be a number from 0 to 1000": {
		accepted: []string{function("coefficient: 3"), function("coefficient: '0.5'"), function("coefficient: 1000"), function("coefficient: 1k"), function("coefficient: 500m")},
		rejected: []rejected{
			{besides("coefficient: -1"), badCoefficient("-1", "-1")},
			{besides("coefficient: '-0.5'"), badCoefficient(`"-0.5"`, "-0.5")},
			{function("coefficient: 1001"), badCoefficient("1001", "1001")},
			{function("coefficient: '1000.1'"), badCoefficient(`"1000.1"`, "1000.1")},
			{function("coefficient: NaN"), noQuantity("NaN")},
			{function("coefficient: Inf"), noQuantity("Inf")},
		},
	},
	"failureDomainKey must be a label key: " + labelKey: {
		accepted: []string{scored("{preset: Spread, failureDomainKey: example.com/Rack_1}"), scored("{preset: Spread, failureDomainKey: " + longestPrefix + "/" + longestName + "}")},
		rejected: refuses(func(key string) string { return scored("{preset: Spread, failureDomainKey: " + key + "}") },
			badLabel("spec.score.failureDomainKey", "string", "failureDomainKey must be a label key", labelKey), "my rack", "a/b/c", "Example.com/rack"),
	},
	"weight must not be set together with priority or coefficient": {
		accepted: []string{function("weight: High"), function("priority: 100, coefficient: 2")},
		rejected: []rejected{
			{function("weight: High, coefficient: 2"), `spec.score.functions[0].weight: Invalid value: weight must not be set together with priority or coefficient`},
			{function("weight: Low, priority: 0"), `spec.score.functions[0].weight: Invalid value: weight must not be set together with priority or coefficient`},
		},
	},
	"lockTimeoutSeconds must only be set with mode Pessimistic": {
		accepted: []string{"{podSelector: {}, bind: {mode: Pessimistic, lockTimeoutSeconds: 1}}", "{podSelector: {}, bind: {mode: Optimistic}}", "{podSelector: {}, bind: {}}"},
		rejected: []rejected{
			{"{podSelector: {}, bind: {mode: Optimistic, lockTimeoutSeconds: 1}}", `spec.bind.lockTimeoutSeconds: Invalid value: lockTimeoutSeconds must only be set with mode Pessimistic`},
			{"{podSelector: {}, bind: {lockTimeoutSeconds: 1}}", `spec.bind.lockTimeoutSeconds: Invalid value: lockTimeoutSeconds must only be set with mode Pessimistic`},
		},
	},
	"groupSize must be set with mode TwoPhase, and only with it": {
		accepted: []string{bound("mode: TwoPhase, groupSize: 2"), bound("mode: Pessimistic"), bound("reservationSeconds: 1")},
		rejected: []rejected{
			{bound("mode: TwoPhase"), `spec.bind.groupSize: Invalid value: groupSize must be set with mode TwoPhase, and only with it`},
			{bound("mode: Optimistic, groupSize: 2"), `spec.bind.groupSize: Invalid value: groupSize must be set with mode TwoPhase, and only with it`},
			{bound("groupSize: 2"), `spec.bind.groupSize: Invalid value: groupSize must be set with mode TwoPhase, and only with it`},
		},
	},
	"groupLabelKey must only be set with mode TwoPhase": {
		accepted: []string{bound("mode: TwoPhase, groupSize: 2, groupLabelKey: job"), bound("mode: TwoPhase, groupSize: 2")},
		rejected: []rejected{
			{bound("mode: Pessimistic, groupLabelKey: job"), `spec.bind.groupLabelKey: Invalid value: groupLabelKey must only be set with mode TwoPhase`},
			{bound("groupLabelKey: job"), `spec.bind.groupLabelKey: Invalid value: groupLabelKey must only be set with mode TwoPhase`},
		},
	},
	"groupLabelKey must be a label key: " + labelKey: {
		accepted: []string{bound("mode: TwoPhase, groupSize: 2, groupLabelKey: " + longestPrefix + "/" + longestName)},
		rejected: refuses(func(key string) string { return bound("mode: TwoPhase, groupSize: 2, groupLabelKey: " + key) },
			badLabel("spec.bind.groupLabelKey", "string", "groupLabelKey must be a label key", labelKey), "my job", "a/b/c", "Example.com/job"),
	},
	"seed must only be set with tieBreaker Random or WeightedRandom": {
		accepted: []string{"{podSelector: {}, select: {tieBreaker: Random, seed: 0}}", "{podSelector: {}, select: {tieBreaker: WeightedRandom, seed: 9007199254740991}}"},
		rejected: []rejected{
			{"{podSelector: {}, select: {tieBreaker: Name, seed: 1}}", `spec.select.seed: Invalid value: seed must only be set with tieBreaker Random or WeightedRandom`},
			{"{podSelector: {}, select: {seed: 1}}", `spec.select.seed: Invalid value: seed must only be set with tieBreaker Random or WeightedRandom`},
		},
	},
}

// badCoefficient is the server's error about a coefficient that it shows.
func badCoefficient(shown, value string) string {
	return fmt.Sprintf(`spec.score.functions[0].coefficient: Invalid value: %s: coefficient must be a number from 0 to 1000, such as 0.5 or 3, not '%s'`, shown, value)
}

// noQuantity is the server's error about a coefficient that is no number: once for the pattern and once for the rule.
func noQuantity(value string) string {
	const path = "spec.score.functions[0].coefficient"
	return fmt.Sprintf(`[%[1]s: Invalid value: %[2]q: %[1]s in body should match %[3]s, %[4]s]`, path, value, quantityPattern, badCoefficient(strconv.Quote(value), value))
}

// supported are the values of an enumeration as the server lists them.
func supported(values ...string) string {
	return `supported values: "` + strings.Join(values, `", "`) + `"`
}
