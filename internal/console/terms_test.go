// SPDX-License-Identifier: Apache-2.0

package console

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawTerms are terms that the API server accepts.
func drawTerms(t *rapid.T, preferred bool) (terms []any) {
	word := rapid.StringMatching(`[a-z][a-z0-9./-]{0,5}`)
	for range rapid.IntRange(1, 3).Draw(t, "terms") {
		term := map[string]any{}
		for range rapid.IntRange(1, 3).Draw(t, "requirements") {
			r := map[string]any{"key": word.Draw(t, "key"), "operator": rapid.SampledFrom(operators).Draw(t, "operator")}
			if op := r["operator"]; op != "Exists" && op != "DoesNotExist" {
				var values []any
				for range rapid.IntRange(1, 3).Draw(t, "values") {
					values = append(values, rapid.SampledFrom([]string{"", "a", "b-c", "7"}).Draw(t, "value"))
				}
				r["values"] = values
			}
			all, _ := term[matchExpressions].([]any)
			term[matchExpressions] = append(all, r)
		}
		if rapid.Bool().Draw(t, "field") {
			term[matchFields] = []any{map[string]any{"key": "metadata.name", "operator": "NotIn", "values": []any{"n1"}}}
		}
		if preferred {
			term = map[string]any{"weight": rapid.Int64Range(1, 100).Draw(t, "weight"), "preference": term}
		}
		terms = append(terms, term)
	}
	return terms
}

func TestTermsAreReadAsTheyAreShown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, preferred := range []bool{false, true} {
			terms := drawTerms(t, preferred)
			f := formField{kind: termsField}
			if preferred {
				f.kind = preferredField
			}
			read, err := f.value(f.text(terms))
			require.NoError(t, err)
			require.Equal(t, any(terms), read)
		}
	})
}

func TestTextThatIsNoTermIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"gpu":                        `"gpu" must be a label, an operator (In,`,
		"gpu In a and":               "", // a value
		"gpu In a and disk":          `"disk" must be a label`,
		"gpu In a100\n\n zone In a ": "",
	} {
		_, err := termsOf(text, false)
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, want, text)
	}
	for _, text := range []string{"gpu In a", "heavy: gpu In a", ": gpu In a", "99999999999: gpu In a"} {
		_, err := termsOf(text, true)
		require.ErrorContains(t, err, "must begin with a weight", text)
	}
	terms, err := termsOf("50: gpu In a100,h100 and field metadata.name In n1", true)
	require.NoError(t, err)
	assert.Equal(t, []any{map[string]any{"weight": int64(50), "preference": map[string]any{
		matchExpressions: []any{map[string]any{"key": "gpu", "operator": "In", "values": []any{"a100", "h100"}}},
		matchFields:      []any{map[string]any{"key": "metadata.name", "operator": "In", "values": []any{"n1"}}},
	}}}, terms)
}

func FuzzTerms(f *testing.F) {
	f.Add("gpu In a100, h100 and old DoesNotExist", false)
	f.Add("50: field metadata.name In n1", true)
	f.Fuzz(func(t *testing.T, text string, preferred bool) {
		terms, err := termsOf(text, preferred)
		if err != nil || terms == nil {
			return
		}
		all, _ := terms.([]any)
		for _, term := range all {
			termText(term)
		}
	})
}
