// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"
)

var vars = Variables{
	"name": "web", "port": int64(8080), "on": true, "env": []any{map[string]any{"name": "A", "value": "1"}}, "none": nil,
	"evil": "x\nkind: Secret\n\"${name}\": {a: b}",
}

func substitute(text string, vars Variables) (map[string]any, error) {
	path := field.NewPath("m")
	m, err := ParseManifest(path, text, maxTemplateNodes)
	if err != nil {
		return nil, err
	}
	return Substitute(path, m, vars)
}

func TestSubstitute(t *testing.T) {
	got, err := substitute(`
a: ${name}
b: x-${name}-${port}-${on}
port: ${port}
quoted: "${port}"
flag: ${on}
env: ${env}
gone: ${none}
list: ["${none}", "${name}", 3, 1.5]
plain: $${name} and $(name)
evil: ${evil}
within: <${evil}>
`, vars)
	require.NoError(t, err)
	assert.Equal(t, map[string]any{
		"a": "web", "b": "x-web-8080-true", "port": int64(8080), "quoted": int64(8080), "flag": true,
		"env": []any{map[string]any{"name": "A", "value": "1"}}, "list": []any{"web", int64(3), 1.5}, "plain": "${name} and $(name)",
		"evil": vars["evil"], "within": "<" + vars["evil"].(string) + ">",
	}, got)
}

func TestSubstituteNamesWhatIsWrong(t *testing.T) {
	for manifest, want := range map[string]string{
		"a: {b: [1, \"${nome}\"]}": `m.a.b[1]: Unsupported value: "${nome}": supported values: "env", "evil"`,
		"a: x${nome}":              `m.a: Unsupported value: "${nome}"`,
		"a: x${env}":               `m.a: Invalid value: "x${env}": ${env} is not a text: it must be the whole value`,
		"a: x${none}":              `${none} is not a text`,
		"${name}: 1":               `m[${name}]: Invalid value: "${name}": variables are not allowed in the name of a field`,
		"- 1":                      `m: Invalid value: "- 1": is not one object`,
		"a: [":                     `cannot be read as YAML`,
		"a: 1\na: 2":               `cannot be read as YAML`,
	} {
		_, err := substitute(manifest, vars)
		require.ErrorContains(t, err, want, manifest)
	}
}

// Whatever a value is, it stays the value of its field.
func TestAValueCannotEscapeItsField(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.String().Draw(t, "value")
		got, err := substitute("a: ${v}\nb: <${v}>\nc: {d: \"${v}\"}", Variables{"v": value})
		require.NoError(t, err)
		require.Equal(t, map[string]any{"a": value, "b": "<" + value + ">", "c": map[string]any{"d": value}}, got)
	})
}

func FuzzSubstitute(f *testing.F) {
	f.Add("a: ${name}")
	f.Add("a: [${env}, $${x}]")
	f.Add("${}: {")
	f.Fuzz(func(t *testing.T, manifest string) {
		if got, err := substitute(manifest, vars); err == nil {
			assert.NotNil(t, got)
		}
	})
}
