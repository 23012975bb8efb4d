// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// ruleCase is what a rule accepts and what it rejects.
type ruleCase struct {
	accepted []string
	rejected []rejected
}

// ruleCases are cases of CEL rules by the message of the rule.
type ruleCases map[string]ruleCase

// merged has the cases of several maps. A message that stands in several of them has the cases of all.
func merged(all ...ruleCases) ruleCases {
	out := ruleCases{}
	for _, cases := range all {
		for message, tc := range cases {
			sum := out[message]
			sum.accepted = append(sum.accepted, tc.accepted...)
			sum.rejected = append(sum.rejected, tc.rejected...)
			out[message] = sum
		}
	}

	return out
}

// rulesOf has the cases of every kind.
var rulesOf = map[kind]ruleCases{
	capacityMix: merged(capacityMixCases, tolerationCases("spot"), tolerationCases("onDemand"), selectorCases(func(selector string) string {
		return "{selector: " + selector + ", spotPercent: 50}"
	})),
	resourceLimit: merged(resourceLimitCases, nodeTermCases(required), nodeTermCases(preferred), selectorCases(func(selector string) string {
		return "{selector: " + selector + "}"
	})),
}

const (
	labelKey   = "an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"
	labelValue = "empty, or at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"
)

var (
	longestName   = strings.Repeat("n", 63)
	longestPrefix = strings.Repeat("p", 253)
)

// outOfRange is what the server says about a number: once for the OpenAPI bound and once for the rule, each with the number.
func outOfRange(field, value, bound, message string) string {
	return fmt.Sprintf(`[spec.%[1]s: Invalid value: %[2]s: spec.%[1]s in body should be %[3]s, spec.%[1]s: Invalid value: %[2]s: %[4]s]`,
		field, value, bound, message)
}

// refuses are specs with values that a rule refuses, in quotes, with what the server says about each.
func refuses(spec, says func(value string) string, values ...string) (cases []rejected) {
	for _, v := range values {
		cases = append(cases, rejected{spec("'" + v + "'"), says(v)})
	}
	return cases
}

// badLabel is notALabel for any value.
func badLabel(path, kind, what, syntax string) func(value string) string {
	return func(value string) string { return notALabel(path, kind, what, value, syntax) }
}

// shown is what the server shows of a value: all of a string, nothing of an object or an array.
func shown(kind, value string) string {
	if kind != "string" {
		return ""
	}
	return fmt.Sprintf("%q: ", value)
}

func notALabel(path, kind, what, value, syntax string) string {
	return fmt.Sprintf(`%s: Invalid value: %s%s, not '%s': %s`, path, shown(kind, value), what, value, syntax)
}

func TestRules(t *testing.T) {
	t.Parallel()
	for k, cases := range rulesOf {
		for message, tc := range cases {
			t.Run(k.name+"/"+message, func(t *testing.T) {
				t.Parallel()
				require.NotEmpty(t, tc.accepted)
				require.NotEmpty(t, tc.rejected)
				about, _, _ := strings.Cut(message, ":")
				for _, spec := range tc.accepted {
					_, err := create(t, k, spec)
					assert.NoError(t, err, spec)
				}
				for _, r := range tc.rejected {
					require.Contains(t, r.want, about, "a case of another rule")
					_, err := create(t, k, r.spec)
					assert.True(t, apierrors.IsInvalid(err), r.spec)
					if otherServer {
						assert.ErrorContains(t, err, about, r.spec)
						continue
					}
					assert.EqualError(t, err, fmt.Sprintf("%s.berth.dev %q is invalid: %s", k.name, object(t, k, "web", r.spec).GetName(), r.want), r.spec)
				}
			})
		}
	}
}

func TestEveryRuleHasCases(t *testing.T) {
	t.Parallel()
	for k, cases := range rulesOf {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			known := map[string]bool{}
			for _, r := range rules(schemaOf(t, k), "") {
				known[r.message] = true
				assert.True(t, r.hasCase(cases[r.message]), "no case of the rule at %s: %s", r.path, r.message)
			}
			for message := range cases {
				assert.True(t, known[message], "cases without a rule: %s", message)
			}
		})
	}
}

// schemaOf is the schema of a kind as it is in manifests.
func schemaOf(t *testing.T, k kind) map[string]any {
	t.Helper()
	root, err := cluster.RepoRoot()
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(root, "manifests", "crds", "berth.dev_"+k.resource+".yaml"))
	require.NoError(t, err)
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	require.NoError(t, yaml.Unmarshal(data, &crd))
	require.Len(t, crd.Spec.Versions, 1)

	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// rule is a CEL rule: where the server says that it is broken, with [] for every index and key, and its message.
type rule struct{ path, message string }

// whereBroken finds the path of a field in what the server says.
var (
	whereBroken = regexp.MustCompile(`([^\s\[]\S*): Invalid value: `)
	index       = regexp.MustCompile(`\[[^\]]*\]`)
)

// hasCase reports whether one of the cases breaks the rule at its path: the same message may stand at several.
func (r rule) hasCase(tc ruleCase) bool {
	for _, c := range tc.rejected {
		for _, at := range whereBroken.FindAllStringSubmatch(c.want, -1) {
			if index.ReplaceAllString(at[1], "[]") == r.path {
				return true
			}
		}
	}

	return false
}

// rules are the CEL rules of a schema and of all below it.
func rules(schema map[string]any, path string) []rule {
	var found []rule
	own, _ := schema["x-kubernetes-validations"].([]any)
	for _, one := range own {
		fields, _ := one.(map[string]any)
		message, _ := fields["message"].(string)
		at, _ := fields["fieldPath"].(string)
		at = strings.TrimPrefix(path+at, ".")
		if at == "" {
			at = "<nil>" // as the server calls the object itself
		}
		found = append(found, rule{path: at, message: message})
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		if below, ok := property.(map[string]any); ok {
			found = append(found, rules(below, path+"."+name)...)
		}
	}
	for _, elements := range []string{"items", "additionalProperties"} {
		if below, ok := schema[elements].(map[string]any); ok {
			found = append(found, rules(below, path+"[]")...)
		}
	}

	return found
}

// selectorCases has the rules of a PodSelector, which several kinds have as spec.selector. In makes the rest of a spec
// around a selector.
func selectorCases(in func(selector string) string) ruleCases {
	return ruleCases{
		"matchLabels must have label keys: " + labelKey: {
			accepted: []string{
				in("{matchLabels: {app: web, app.kubernetes.io/Name_1: web}}"),
				in("{matchLabels: {" + longestPrefix + "/" + longestName + ": web}}"),
			},
			rejected: refuses(func(key string) string { return in("{matchLabels: {" + key + ": web}}") },
				badLabel("spec.selector.matchLabels", "object", "matchLabels must have label keys", labelKey),
				"my app", "", "a/b/c", "a"+longestPrefix+"/a"),
		},
		"matchLabels must have label values: " + labelValue: {
			accepted: []string{in("{matchLabels: {app: '', tier: Front_1.a-b, name: " + longestName + "}}")},
			rejected: refuses(func(value string) string { return in("{matchLabels: {app: " + value + "}}") },
				badLabel("spec.selector.matchLabels[app]", "string", "matchLabels must have label values", labelValue), "my app", "web-"),
		},
		"key must be a label key: " + labelKey: {
			accepted: []string{
				in("{matchExpressions: [{key: app.kubernetes.io/name, operator: Exists}]}"),
				in("{matchExpressions: [{key: " + longestPrefix + "/" + longestName + ", operator: Exists}]}"),
			},
			rejected: refuses(func(key string) string { return in("{matchExpressions: [{key: " + key + ", operator: Exists}]}") },
				badLabel("spec.selector.matchExpressions[0].key", "string", "key must be a label key", labelKey), "my app", "/app"),
		},
		"values must hold label values: " + labelValue: {
			accepted: []string{in("{matchExpressions: [{key: app, operator: In, values: ['', web, Web_1.a-b]}]}")},
			rejected: []rejected{
				{in("{matchExpressions: [{key: app, operator: In, values: [web, 'my app']}]}"), notALabel("spec.selector.matchExpressions[0].values[1]", "string", "values must hold label values", "my app", labelValue)},
			},
		},
		"values must not be empty when operator is In or NotIn": {
			accepted: []string{
				in("{matchExpressions: [{key: app, operator: In, values: [web]}]}"),
				in("{matchExpressions: [{key: app, operator: NotIn, values: [web]}]}"),
			},
			rejected: []rejected{
				{in("{matchExpressions: [{key: app, operator: In}]}"), `spec.selector.matchExpressions[0].values: Invalid value: values must not be empty when operator is In or NotIn`},
				{in("{matchExpressions: [{key: app, operator: NotIn, values: []}]}"), `spec.selector.matchExpressions[0].values: Invalid value: values must not be empty when operator is In or NotIn`},
			},
		},
		"values must be empty when operator is Exists or DoesNotExist": {
			accepted: []string{
				in("{matchExpressions: [{key: app, operator: Exists}]}"),
				in("{matchExpressions: [{key: app, operator: DoesNotExist, values: []}]}"),
			},
			rejected: []rejected{
				{in("{matchExpressions: [{key: app, operator: Exists, values: [web]}]}"), `spec.selector.matchExpressions[0].values: Invalid value: values must be empty when operator is Exists or DoesNotExist`},
				{in("{matchExpressions: [{key: app, operator: DoesNotExist, values: [web]}]}"), `spec.selector.matchExpressions[0].values: Invalid value: values must be empty when operator is Exists or DoesNotExist`},
			},
		},
	}
}
