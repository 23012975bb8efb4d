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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/hack/cluster"
)

// rejected is a spec that the server refuses, with its whole error: path, value and message.
type rejected struct{ spec, want string }

// change is a spec in place of another, with the server's whole error if it refuses it.
type change struct{ from, to, want string }

// ruleCase is what a rule accepts and what it rejects. Changes are the cases of a rule about what must stay.
type ruleCase struct {
	accepted []string
	rejected []rejected
	changes  []change
}

// ruleCases are cases of CEL rules by the message of the rule.
type ruleCases map[string]ruleCase

// merged has the cases of several maps. A message that is in several of them has the cases of all.
func merged(all ...ruleCases) ruleCases {
	out := ruleCases{}
	for _, cases := range all {
		for message, tc := range cases {
			sum := out[message]
			sum.accepted = append(sum.accepted, tc.accepted...)
			sum.rejected = append(sum.rejected, tc.rejected...)
			sum.changes = append(sum.changes, tc.changes...)
			out[message] = sum
		}
	}

	return out
}

// rulesOf has the cases of every kind.
var rulesOf = map[kind]ruleCases{
	capacityMix: merged(capacityMixCases, groupCases, mixTolerationCases("spot"), mixTolerationCases("onDemand"), selectorCases("selector", func(selector string) string {
		return "{selector: " + selector + ", spotPercent: 50}"
	})),
	schedulingPolicy: merged(schedulingPolicyCases, selectorCases("podSelector", func(selector string) string {
		return "{podSelector: " + selector + "}"
	})),
	resourceLimit: merged(resourceLimitCases, nodeTermCases(required), nodeTermCases(preferred), selectorCases("selector", func(selector string) string {
		return "{selector: " + selector + "}"
	})),
	reservation: merged(reservationCases, immutableCases(), tolerationCases("spec.tolerations", func(toleration string) string {
		return held("tolerations: [" + toleration + "]")
	}), nodeSelectorCases(func(selector string) string { return held("nodeSelector: " + selector) }),
		selectorCases("podSelector", func(selector string) string { return "{podSelector: " + selector + ", cpu: 1}" })),
}

const (
	labelKey   = "an optional DNS prefix and '/', then at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"
	labelValue = "empty, or at most 63 letters, digits, '-', '_' or '.' that start and end with a letter or digit"
)

var (
	longestName   = strings.Repeat("n", 63)
	longestPrefix = strings.Repeat("p", 253)
)

// outOfRange is the server's error about a number: once for the OpenAPI bound and once for the rule, each with the number.
func outOfRange(field, value, bound, message string) string {
	return fmt.Sprintf(`[spec.%[1]s: Invalid value: %[2]s: spec.%[1]s in body should be %[3]s, spec.%[1]s: Invalid value: %[2]s: %[4]s]`,
		field, value, bound, message)
}

// refuses are specs with values that a rule refuses, in quotes, with the server's error about each.
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
				about, _, _ := strings.Cut(message, ":")
				if len(tc.changes) > 0 {
					checkChanges(t, k, about, tc.changes)

					return
				}
				require.NotEmpty(t, tc.accepted)
				require.NotEmpty(t, tc.rejected)
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

// checkChanges makes changes of stored objects, as dry runs. A change that is accepted must be among them.
func checkChanges(t *testing.T, k kind, about string, changes []change) {
	t.Helper()
	accepted := false
	for _, c := range changes {
		stored, err := objects(t, k).Create(t.Context(), unnamed(object(t, k, "", c.from)), metav1.CreateOptions{})
		require.NoError(t, err, c.from)
		changed := object(t, k, stored.GetName(), c.to)
		changed.SetResourceVersion(stored.GetResourceVersion())
		_, err = objects(t, k).Update(t.Context(), changed, metav1.UpdateOptions{
			DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
		})
		switch {
		case c.want == "":
			accepted = true
			assert.NoError(t, err, "%s in place of %s", c.to, c.from)
		case otherServer:
			assert.ErrorContains(t, err, about, "%s in place of %s", c.to, c.from)
		default:
			require.Contains(t, c.want, about, "a case of another rule")
			assert.EqualError(t, err, fmt.Sprintf("%s.berth.dev %q is invalid: %s", k.name, stored.GetName(), c.want), "%s in place of %s", c.to, c.from)
		}
	}
	assert.True(t, accepted, "no change that is accepted")
}

// unnamed leaves the name to the server.
func unnamed(object *unstructured.Unstructured) *unstructured.Unstructured {
	object.SetGenerateName("changed-")

	return object
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

// rule is a CEL rule: where the server reports it as broken, with [] for every index and key, and its message.
type rule struct{ path, message string }

// whereBroken finds the path of a field in the server's error.
var (
	whereBroken = regexp.MustCompile(`([^\s\[]\S*): Invalid value: `)
	index       = regexp.MustCompile(`\[[^\]]*\]`)
)

// hasCase reports whether one of the cases breaks the rule at its path: the same message may be at several.
func (r rule) hasCase(tc ruleCase) bool {
	texts := make([]string, 0, len(tc.rejected)+len(tc.changes))
	for _, c := range tc.rejected {
		texts = append(texts, c.want)
	}
	for _, c := range tc.changes {
		texts = append(texts, c.want)
	}
	for _, text := range texts {
		for _, at := range whereBroken.FindAllStringSubmatch(text, -1) {
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

// nodeSelectorCases has the rules of spec.nodeSelector, which several kinds have. In makes the rest of a spec around it.
func nodeSelectorCases(in func(selector string) string) ruleCases {
	return ruleCases{
		"nodeSelector must have label keys: " + labelKey: {
			accepted: []string{
				in("{disk: ssd, node.kubernetes.io/Name_1: web}"),
				in("{" + longestPrefix + "/" + longestName + ": web}"),
			},
			rejected: refuses(func(key string) string { return in("{" + key + ": ssd}") },
				badLabel("spec.nodeSelector", "object", "nodeSelector must have label keys", labelKey),
				"my disk", "", "a/b/c", "Example.com/disk", "a"+longestPrefix+"/a", "n"+longestName),
		},
		"nodeSelector must have label values: " + labelValue: {
			accepted: []string{in("{disk: '', kind: Ssd_1.a-b, name: " + longestName + "}")},
			rejected: refuses(func(value string) string { return in("{disk: " + value + "}") },
				badLabel("spec.nodeSelector[disk]", "string", "nodeSelector must have label values", labelValue), "fast ssd", "ssd-"),
		},
	}
}

// selectorCases has the rules of a PodSelector, which several kinds have in a field of spec. In makes the rest of a spec around
// a selector.
func selectorCases(field string, in func(selector string) string) ruleCases {
	path := "spec." + field
	return ruleCases{
		"matchLabels must have label keys: " + labelKey: {
			accepted: []string{
				in("{matchLabels: {app: web, app.kubernetes.io/Name_1: web}}"),
				in("{matchLabels: {" + longestPrefix + "/" + longestName + ": web}}"),
			},
			rejected: refuses(func(key string) string { return in("{matchLabels: {" + key + ": web}}") },
				badLabel(path+".matchLabels", "object", "matchLabels must have label keys", labelKey),
				"my app", "", "a/b/c", "a"+longestPrefix+"/a"),
		},
		"matchLabels must have label values: " + labelValue: {
			accepted: []string{in("{matchLabels: {app: '', tier: Front_1.a-b, name: " + longestName + "}}")},
			rejected: refuses(func(value string) string { return in("{matchLabels: {app: " + value + "}}") },
				badLabel(path+".matchLabels[app]", "string", "matchLabels must have label values", labelValue), "my app", "web-"),
		},
		"key must be a label key: " + labelKey: {
			accepted: []string{
				in("{matchExpressions: [{key: app.kubernetes.io/name, operator: Exists}]}"),
				in("{matchExpressions: [{key: " + longestPrefix + "/" + longestName + ", operator: Exists}]}"),
			},
			rejected: refuses(func(key string) string { return in("{matchExpressions: [{key: " + key + ", operator: Exists}]}") },
				badLabel(path+".matchExpressions[0].key", "string", "key must be a label key", labelKey), "my app", "/app"),
		},
		"values must hold label values: " + labelValue: {
			accepted: []string{in("{matchExpressions: [{key: app, operator: In, values: ['', web, Web_1.a-b]}]}")},
			rejected: []rejected{
				{in("{matchExpressions: [{key: app, operator: In, values: [web, 'my app']}]}"), notALabel(path+".matchExpressions[0].values[1]", "string", "values must hold label values", "my app", labelValue)},
			},
		},
		"values must not be empty when operator is In or NotIn": {
			accepted: []string{
				in("{matchExpressions: [{key: app, operator: In, values: [web]}]}"),
				in("{matchExpressions: [{key: app, operator: NotIn, values: [web]}]}"),
			},
			rejected: []rejected{
				{in("{matchExpressions: [{key: app, operator: In}]}"), path + `.matchExpressions[0].values: Invalid value: values must not be empty when operator is In or NotIn`},
				{in("{matchExpressions: [{key: app, operator: NotIn, values: []}]}"), path + `.matchExpressions[0].values: Invalid value: values must not be empty when operator is In or NotIn`},
			},
		},
		"values must be empty when operator is Exists or DoesNotExist": {
			accepted: []string{
				in("{matchExpressions: [{key: app, operator: Exists}]}"),
				in("{matchExpressions: [{key: app, operator: DoesNotExist, values: []}]}"),
			},
			rejected: []rejected{
				{in("{matchExpressions: [{key: app, operator: Exists, values: [web]}]}"), path + `.matchExpressions[0].values: Invalid value: values must be empty when operator is Exists or DoesNotExist`},
				{in("{matchExpressions: [{key: app, operator: DoesNotExist, values: [web]}]}"), path + `.matchExpressions[0].values: Invalid value: values must be empty when operator is Exists or DoesNotExist`},
			},
		},
	}
}
