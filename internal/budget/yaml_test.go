// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
	sigsyaml "sigs.k8s.io/yaml"
)

var small = YAML{Bytes: 64 << 10, Nodes: 4096, Depth: 64}

// read parses a text as Kubernetes does.
func read(t require.TestingT, text string) any {
	var want any
	require.NoError(t, sigsyaml.UnmarshalStrict([]byte(text), &want), text)
	return want
}

// inJSON is a value as it is sent to the API server.
func inJSON(t require.TestingT, value any) string {
	encoded, err := json.Marshal(value)
	require.NoError(t, err)
	return string(encoded)
}

func TestATextIsReadAsKubernetesReadsIt(t *testing.T) {
	for _, text := range []string{
		"", "~", "a", "1", "- 1\n- [2, {a: b}]", "a: 1\n", "---\na: 1\n", "# a comment\na: 1", "a:\n- b\n- c", "{a: {b: [c, d]}}",
		"a: yes", "a: No", "a: on", "a: y", "a: True", "a: null", "a: Null", "a:", "a: ~", "a: nope", "a: nil", "a: 'yes'", `a: "1"`,
		"a: 0x1F", "a: 0b11", "a: 0o17", "a: 017", "a: 08", "a: 1_000", "a: +1", "a: -1", "a: 1.5", "a: .5", "a: 1e3", "a: 1E400", "a: 1:30",
		"a: 1Gi", "a: 500m", "a: 1.2.3.4", "a: 2001-01-01", "a: 2001-01-01T00:00:00Z", "a: --", "a: '-'", "a: 12345678901234567",
		"yes: a", "1: a", "'1': a", "1.5: a", "0x10: a", "a: |\n  *x\n  &y\n  <<: z\n", "a: >\n  b\n  c\n", "a: b\n  c", `a: "*b"`, `"<<": a`,
		`a: "\u00e9\n"`, "a: !!str 1", "? a\n: b", "a: [1,\n 2]", "a: .", "a: ..", "a: +", "a: 0x", "a: _1", "a: 1_", "a: e", "a: 0.0", "a: -0",
	} {
		value, _, err := small.Parse(text)
		require.NoError(t, err, text)
		assert.JSONEq(t, inJSON(t, read(t, text)), inJSON(t, value), text)
	}
}

func TestATextOutsideOfItsBudgetIsRefused(t *testing.T) {
	for want, text := range map[string]string{
		"has 65537 bytes, more than 65536":                         "a: " + strings.Repeat("b", 64<<10-2),
		"line 1: has more than 4096 keys":                          "a: [" + strings.Repeat("b,", 4096) + "]",
		"characters of the syntax of YAML, more than 16384":        "a: " + strings.Repeat("[", 32<<10),
		"line 1: is nested deeper than 64":                         strings.Repeat("[", 65) + strings.Repeat("]", 65),
		"line 1: &x is an anchor: anchors and aliases are not":     "a: &x {b: c}",
		"yaml: unknown anchor 'x' referenced":                      "a: 1\nb: *x\n",
		"line 1: << is a merge key":                                "<<: {a: b}",
		"line 1: !!binary is a tag: only !!str is allowed":         "a: !!binary aGk=",
		"line 1: !x is a tag":                                      "a: !x b",
		"is more than one document":                                "a: 1\n---\nb: 2\n",
		`line 2: key "a" is already set`:                           "a: 1\na: 2",
		`line 2: key "1" is already set`:                           "1: a\n'1': b",
		"line 1: a key must be a scalar":                           "{[a]: b}",
		"line 1: a key must not be null":                           "~: b",
		"yaml: line 1: did not find expected node content":         "a: [",
		"line 1: &y is an anchor: anchors and aliases are not all": "&y a: b",
	} {
		_, _, err := small.Parse(text)
		assert.ErrorContains(t, err, want, "%.80s", text)
	}
}

func TestADocumentHasTheLinesOfItsValues(t *testing.T) {
	root, nodes, err := small.Document("a: 1\n\nb:\n- yes\n")
	require.NoError(t, err)
	assert.Equal(t, 6, nodes)
	assert.Equal(t, int64(1), Scalar(root.Content[1]))
	yes := root.Content[3].Content[0]
	assert.Equal(t, true, Scalar(yes))
	assert.Equal(t, 4, yes.Line)
	root, _, err = small.Document("# empty\n")
	require.NoError(t, err)
	assert.Nil(t, root)
	_, _, err = small.Document("a: &x 1")
	require.ErrorContains(t, err, "line 1: &x is an anchor")
}

func TestNodesAreCounted(t *testing.T) {
	for text, want := range map[string]int{"a": 1, "{}": 1, "a: b": 3, "a: [1, 2, {b: c}]": 8} {
		_, nodes, err := small.Parse(text)
		require.NoError(t, err)
		assert.Equal(t, want, nodes, text)
	}
}

func TestEveryValueIsReadBack(t *testing.T) {
	scalar := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }), rapid.Map(rapid.Int32(), func(n int32) any { return n }),
		rapid.Map(rapid.StringMatching(`[-+.0-9a-zA-Z_~*&<>:, \n#"'|%@{}\[\]]{0,12}`), func(s string) any { return s }),
	)
	rapid.Check(t, func(t *rapid.T) {
		object := map[string]any{}
		for i, v := range rapid.SliceOfN(scalar, 0, 8).Draw(t, "scalars") {
			object[fmt.Sprint("k", i)] = []any{v, map[string]any{fmt.Sprint(v): v}}
		}
		text, err := sigsyaml.Marshal(object)
		require.NoError(t, err)
		value, _, err := small.Parse(string(text))
		require.NoError(t, err)
		require.JSONEq(t, inJSON(t, object), inJSON(t, value))
	})
}

// bombs are texts of 64 KB that become large, or that a parser reads slowly.
func bombs() map[string]string {
	fill := func(head, unit string) string { return head + strings.Repeat(unit, (64<<10-len(head)-64)/len(unit)) }
	nested := "a0: &a0 [" + strings.Repeat("{},", 3999) + "{}]\n"
	for i := range 10 {
		nested += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 93), i)
	}
	return map[string]string{
		"aliases of a list of 4,000 maps":   "a: &a [" + strings.Repeat("{},", 3999) + "{}]\nb: [" + strings.Repeat("*a,", 93) + "*a]\n",
		"aliases nested ten deep":           nested,
		"aliases in keys":                   "a: &a b\n? [" + strings.Repeat("*a,", 1000) + "*a]\n: c\n",
		"merge keys":                        "a: &a {b: c}\n" + fill("", "d: {<<: *a}\n"),
		"open lists":                        fill("a: ", "["),
		"lists in lists of another line":    fill("a:\n", "- "),
		"empty maps":                        fill("a: [", "{},"),
		"keys":                              fill("", "? "),
		"anchors":                           fill("", "&a "),
		"tags":                              fill("", "!a "),
		"comments":                          fill("a: b\n", "#\n"),
		"comments behind values":            fill("", "- #\n"),
		"documents":                         fill("", "---\n"),
		"spaces":                            fill("a:", " ") + "b",
		"lines":                             fill("a: |\n", " \n"),
		"quotes":                            fill("a: ", "''"),
		"escapes":                           fill(`a: "`, `\u0000`),
		"colons":                            fill("a", ":"),
		"digits":                            fill("a: ", "9"),
		"percent signs, which begin a line": fill("", "%a\n"),
	}
}

// A bomb costs memory for its length, not for what it expands to.
func TestABombAllocatesLittle(t *testing.T) {
	for name, text := range bombs() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, _ = small.Parse(text)
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(5<<20), name)
	}
}

func BenchmarkParse(b *testing.B) {
	for name, text := range bombs() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _, _ = small.Parse(text)
			}
		})
	}
}

// FuzzYAML compares the values with those that Kubernetes reads. What has aliases, Kubernetes would expand.
func FuzzYAML(f *testing.F) {
	for _, text := range []string{"a: 1", "a: &x [*x]", "a: !!str 1", "- - -\n", "? a\n: b", "a: |\n b", "{a: [b, 'c'], \"d\": ~}", "%YAML 1.1\n---\na"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		value, nodes, err := small.Parse(text)
		if err != nil {
			return
		}
		require.LessOrEqual(t, nodes, len(text)+1)
		var want any
		if sigsyaml.UnmarshalStrict([]byte(text), &want) != nil {
			return
		}
		require.JSONEq(t, inJSON(t, want), inJSON(t, value))
	})
}
