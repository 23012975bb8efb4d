// SPDX-License-Identifier: Apache-2.0

package extremes

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func schemaOf(t *testing.T, text string) *Schema {
	t.Helper()
	s := &Schema{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), s))
	return s
}

const bounded = `
type: object
required: [name]
properties:
  name: {type: string, minLength: 1, maxLength: 100}
  count: {type: integer, minimum: 1, maximum: 9}
  kind: {type: string, enum: [A, B]}
  on: {type: boolean}
  since: {type: string, format: date-time}
  list: {type: array, maxItems: 3, items: {type: object, required: [key], properties: {key: {type: string, maxLength: 63}}}}
  labels: {type: object, maxProperties: 2, additionalProperties: {type: string, maxLength: 10}}
  text: {type: string, maxLength: 8192}
  cpu: {x-kubernetes-int-or-string: true, maxLength: 64, x-kubernetes-validations: [{rule: "quantity(self).compareTo(quantity('1M')) <= 0"}]}
`

func TestEachFieldIsAtItsExtremes(t *testing.T) {
	all, err := Of("spec", schemaOf(t, bounded), map[string]any{"base": true})
	require.NoError(t, err)
	values := map[string][]any{}
	for _, e := range all {
		assert.Equal(t, true, e.Value["base"], "the base stays")
		assert.NotEmpty(t, e.Value["name"], "what is required is there")
		values[e.Field] = append(values[e.Field], e.Value)
	}
	at := func(field, name string) (list []any) {
		for _, v := range values[field] {
			list = append(list, v.(map[string]any)[name])
		}
		return list
	}
	assert.Equal(t, []any{int64(1), int64(9), int64(10)}, at("spec.count", "count"))
	assert.Equal(t, []any{"A", "B"}, at("spec.kind", "kind"))
	assert.Len(t, at("spec.list", "list")[0], 3)
	assert.Len(t, at("spec.labels", "labels")[0], 2)
	assert.Contains(t, at("spec.cpu", "cpu"), "1Ei")
	assert.Contains(t, at("spec.text", "text"), Bomb(8192))
	assert.Len(t, at("spec.list[].key", "list")[0].([]any)[0].(map[string]any)["key"], 57)
	assert.NotContains(t, values["spec.list"][0].(map[string]any)["list"].([]any)[1], at("spec.list", "list")[0].([]any)[0], "entries differ")
	full := values["spec"][0].(map[string]any)
	assert.Len(t, full, 10, "all fields at once")
}

func TestAFieldWithoutABoundIsAnError(t *testing.T) {
	for field, text := range map[string]string{
		"spec has no maxLength":               "{type: string}",
		"spec.a has no maximum and minimum":   "{type: object, properties: {a: {type: integer, maximum: 3}}}",
		"spec.a has no maxItems":              "{type: object, properties: {a: {type: array, items: {type: boolean}}}}",
		"spec[] has no maxLength":             "{type: array, maxItems: 1, items: {type: string}}",
		"spec has no maxProperties":           "{type: object, additionalProperties: {type: boolean}}",
		"spec{} has no maxLength":             "{type: object, maxProperties: 1, additionalProperties: {type: string}}",
		"spec has no highest quantity":        "{x-kubernetes-int-or-string: true, maxLength: 64}",
		"spec has no maxLength\n":             "{x-kubernetes-int-or-string: true}",
		"spec has no type":                    "{}",
		"spec has no schema of what is below": "{type: object, x-kubernetes-preserve-unknown-fields: true}",
	} {
		_, err := Of("spec", schemaOf(t, text), nil)
		assert.ErrorContains(t, err, field)
	}
}

func TestAnObjectFitsIntoTheStore(t *testing.T) {
	large := schemaOf(t, `
type: array
maxItems: 1000
items: {type: object, maxProperties: 64, additionalProperties: {type: string, maxLength: 32768}}`)
	s := &Schema{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": *large, "b": *large}}
	all, err := Of("spec", s, map[string]any{})
	require.NoError(t, err)
	for _, e := range all {
		text, err := json.Marshal(e.Value)
		require.NoError(t, err)
		assert.Less(t, len(text), 1200<<10, e.Field)
	}
}

func TestABombHasAliasesAndItsLength(t *testing.T) {
	for _, n := range []int{1 << 10, 8 << 10, 64 << 10} {
		assert.LessOrEqual(t, len(Bomb(n)), n)
	}
	assert.Contains(t, Bomb(64<<10), "? *a9\n: {<<: *a9}")
}
