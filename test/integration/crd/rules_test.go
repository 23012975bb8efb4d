// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/hack/cluster"
)

// rejected is a spec that the server refuses, with all that it says: path, value and message.
type rejected struct{ spec, want string }

// ruleCases has every CEL rule of the CRD, by its message, with specs that it accepts and specs that it rejects.
var ruleCases = map[string]struct {
	accepted []string
	rejected []rejected
}{
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
	"matchLabels must have label keys: " + labelKey: {
		accepted: []string{
			"{selector: {matchLabels: {app: web, app.kubernetes.io/Name_1: web}}, spotPercent: 50}",
			"{selector: {matchLabels: {" + longestPrefix + "/" + longestName + ": web}}, spotPercent: 50}",
		},
		rejected: []rejected{
			{"{selector: {matchLabels: {'my app': web}}, spotPercent: 50}", notALabel("spec.selector.matchLabels", "object", "matchLabels must have label keys", "my app", labelKey)},
			{"{selector: {matchLabels: {'': web}}, spotPercent: 50}", notALabel("spec.selector.matchLabels", "object", "matchLabels must have label keys", "", labelKey)},
			{"{selector: {matchLabels: {a/b/c: web}}, spotPercent: 50}", notALabel("spec.selector.matchLabels", "object", "matchLabels must have label keys", "a/b/c", labelKey)},
			{"{selector: {matchLabels: {a" + longestPrefix + "/a: web}}, spotPercent: 50}", notALabel("spec.selector.matchLabels", "object", "matchLabels must have label keys", "a"+longestPrefix+"/a", labelKey)},
		},
	},
	"matchLabels must have label values: " + labelValue: {
		accepted: []string{"{selector: {matchLabels: {app: '', tier: Front_1.a-b, name: " + longestName + "}}, spotPercent: 50}"},
		rejected: []rejected{
			{"{selector: {matchLabels: {app: my app}}, spotPercent: 50}", notALabel("spec.selector.matchLabels[app]", "string", "matchLabels must have label values", "my app", labelValue)},
			{"{selector: {matchLabels: {app: web-}}, spotPercent: 50}", notALabel("spec.selector.matchLabels[app]", "string", "matchLabels must have label values", "web-", labelValue)},
		},
	},
	"key must be a label key: " + labelKey: {
		accepted: []string{
			"{selector: {matchExpressions: [{key: app.kubernetes.io/name, operator: Exists}]}, spotPercent: 50}",
			"{selector: {matchExpressions: [{key: " + longestPrefix + "/" + longestName + ", operator: Exists}]}, spotPercent: 50}",
		},
		rejected: []rejected{
			{"{selector: {matchExpressions: [{key: my app, operator: Exists}]}, spotPercent: 50}", notALabel("spec.selector.matchExpressions[0].key", "string", "key must be a label key", "my app", labelKey)},
			{"{selector: {matchExpressions: [{key: /app, operator: Exists}]}, spotPercent: 50}", notALabel("spec.selector.matchExpressions[0].key", "string", "key must be a label key", "/app", labelKey)},
		},
	},
	"values must hold label values: " + labelValue: {
		accepted: []string{"{selector: {matchExpressions: [{key: app, operator: In, values: ['', web, Web_1.a-b]}]}, spotPercent: 50}"},
		rejected: []rejected{
			{"{selector: {matchExpressions: [{key: app, operator: In, values: [web, 'my app']}]}, spotPercent: 50}", notALabel("spec.selector.matchExpressions[0].values[1]", "string", "values must hold label values", "my app", labelValue)},
		},
	},
	"values must not be empty when operator is In or NotIn": {
		accepted: []string{
			"{selector: {matchExpressions: [{key: app, operator: In, values: [web]}]}, spotPercent: 50}",
			"{selector: {matchExpressions: [{key: app, operator: NotIn, values: [web]}]}, spotPercent: 50}",
		},
		rejected: []rejected{
			{"{selector: {matchExpressions: [{key: app, operator: In}]}, spotPercent: 50}", `spec.selector.matchExpressions[0].values: Invalid value: "object": values must not be empty when operator is In or NotIn`},
			{"{selector: {matchExpressions: [{key: app, operator: NotIn, values: []}]}, spotPercent: 50}", `spec.selector.matchExpressions[0].values: Invalid value: "object": values must not be empty when operator is In or NotIn`},
		},
	},
	"values must be empty when operator is Exists or DoesNotExist": {
		accepted: []string{
			"{selector: {matchExpressions: [{key: app, operator: Exists}]}, spotPercent: 50}",
			"{selector: {matchExpressions: [{key: app, operator: DoesNotExist, values: []}]}, spotPercent: 50}",
		},
		rejected: []rejected{
			{"{selector: {matchExpressions: [{key: app, operator: Exists, values: [web]}]}, spotPercent: 50}", `spec.selector.matchExpressions[0].values: Invalid value: "object": values must be empty when operator is Exists or DoesNotExist`},
			{"{selector: {matchExpressions: [{key: app, operator: DoesNotExist, values: [web]}]}, spotPercent: 50}", `spec.selector.matchExpressions[0].values: Invalid value: "object": values must be empty when operator is Exists or DoesNotExist`},
		},
	},
}

const (
	labelKey   = "an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"
	labelValue = "empty, or at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"
)

var (
	longestName   = strings.Repeat("n", 63)
	longestPrefix = strings.Repeat("p", 253)
)

// outOfRange is what the server says about a number: once for the OpenAPI bound and once for the rule.
func outOfRange(field, value, bound, message string) string {
	return fmt.Sprintf(`[spec.%[1]s: Invalid value: %[2]s: spec.%[1]s in body should be %[3]s, spec.%[1]s: Invalid value: "integer": %[4]s]`,
		field, value, bound, message)
}

func notALabel(path, kind, what, value, syntax string) string {
	return fmt.Sprintf(`%s: Invalid value: "%s": %s, not '%s': %s`, path, kind, what, value, syntax)
}

func TestRules(t *testing.T) {
	t.Parallel()
	for message, tc := range ruleCases {
		t.Run(message, func(t *testing.T) {
			t.Parallel()
			require.NotEmpty(t, tc.accepted)
			require.NotEmpty(t, tc.rejected)
			about, _, _ := strings.Cut(message, ":")
			for _, spec := range tc.accepted {
				_, err := create(t, spec)
				assert.NoError(t, err, spec)
			}
			for _, r := range tc.rejected {
				require.Contains(t, r.want, about, "a case of another rule")
				_, err := create(t, r.spec)
				assert.True(t, apierrors.IsInvalid(err), r.spec)
				assert.EqualError(t, err, `CapacityMix.berth.dev "web" is invalid: `+r.want, r.spec)
			}
		})
	}
}

func TestEveryRuleHasCases(t *testing.T) {
	t.Parallel()
	root, err := cluster.RepoRoot()
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(root, "manifests", "crds", "berth.dev_capacitymixes.yaml"))
	require.NoError(t, err)
	var crd any
	require.NoError(t, yaml.Unmarshal(data, &crd))

	var missing []string
	for _, message := range ruleMessages(crd) {
		if _, ok := ruleCases[message]; !ok {
			missing = append(missing, message)
		}
	}
	assert.Empty(t, missing, "rules without a case")
	assert.Len(t, ruleMessages(crd), len(ruleCases), "cases without a rule")
}

// ruleMessages returns the messages of the CEL rules anywhere in a CRD.
func ruleMessages(node any) []string {
	var messages []string
	switch node := node.(type) {
	case map[string]any:
		for key, value := range node {
			if rules, ok := value.([]any); ok && key == "x-kubernetes-validations" {
				for _, rule := range rules {
					message, _ := rule.(map[string]any)["message"].(string)
					messages = append(messages, message)
				}

				continue
			}
			messages = append(messages, ruleMessages(value)...)
		}
	case []any:
		for _, value := range node {
			messages = append(messages, ruleMessages(value)...)
		}
	}

	return messages
}
