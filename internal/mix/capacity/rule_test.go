// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestType(t *testing.T) {
	for typ, want := range map[Type]struct {
		text  string
		other Type
	}{
		Unknown:  {"unknown", Unknown},
		Spot:     {"spot", OnDemand},
		OnDemand: {"on-demand", Spot},
		Type(9):  {"unknown", Unknown},
	} {
		assert.Equal(t, want.text, typ.String())
		assert.Equal(t, want.other, typ.Other())
	}
	var zero Type
	assert.Equal(t, Unknown, zero, "an unset type must satisfy nothing")
}

func TestParseType(t *testing.T) {
	for _, typ := range []Type{Spot, OnDemand} {
		got, err := ParseType(typ.String())
		require.NoError(t, err)
		assert.Equal(t, typ, got)
	}
	for _, text := range []string{"", "unknown", "SPOT", "OnDemand", " spot", "reserved"} {
		got, err := ParseType(text)
		assert.Equal(t, Unknown, got, "%q", text)
		assert.ErrorContains(t, err, `"`+text+`"`, "the message names the value")
	}
}

func TestRuleValidate(t *testing.T) {
	good := Rule{Name: "r", Key: "example.com/pool", Operator: In, Values: []string{"spot"}, Type: Spot}
	for name, tc := range map[string]struct {
		change func(*Rule)
		want   []string // parts of the message; none if the rule is valid
	}{
		"In with one value is valid":       {change: func(*Rule) {}},
		"In with the empty value is valid": {change: func(r *Rule) { r.Values = []string{""} }},
		"In may require another label":     {change: func(r *Rule) { r.Requires = "example.com/cloud" }},
		"In may require its own label":     {change: func(r *Rule) { r.Requires = r.Key }},
		"Exists without values is valid":   {change: func(r *Rule) { r.Operator, r.Values = Exists, nil }},
		"Absent with evidence is valid":    {change: func(r *Rule) { *r = absent("r", r.Key, "example.com/cloud") }},
		"Absent on every node is valid":    {change: func(r *Rule) { *r = absent("r", r.Key, AnyNode) }},
		"Absent may mean spot":             {change: func(r *Rule) { *r = absent("r", r.Key, AnyNode); r.Type = Spot }},
		"an empty name is refused":         {func(r *Rule) { r.Name = " " }, []string{"example.com/pool", "name"}},
		"an empty key is refused":          {func(r *Rule) { r.Key = "" }, []string{`"r"`, `key ""`}},
		"a key with a space is refused":    {func(r *Rule) { r.Key = "a b" }, []string{`"r"`, `key "a b"`}},
		"an unknown operator is refused":   {func(r *Rule) { r.Operator = "in" }, []string{`"r"`, `operator "in"`, "Exists"}},
		"no operator is refused":           {func(r *Rule) { r.Operator = "" }, []string{`"r"`, `operator ""`}},
		"In without values is refused":     {func(r *Rule) { r.Values = nil }, []string{`"r"`, "values", "In"}},
		"a bad label value is refused":     {func(r *Rule) { r.Values = []string{"a", "b c"} }, []string{`"r"`, `values "b c"`}},
		"a value listed twice is refused":  {func(r *Rule) { r.Values = []string{"a", "a"} }, []string{`"r"`, `values "a"`, "twice"}},
		"Exists with values is refused":    {func(r *Rule) { r.Operator = Exists }, []string{`"r"`, `values "spot"`, "Exists"}},
		"Absent with values is refused": {
			func(r *Rule) { r.Operator, r.Requires = Absent, "*" }, []string{`"r"`, `values "spot"`, "Absent"},
		},
		"Absent without evidence": {func(r *Rule) { *r = absent("r", r.Key, "") }, []string{`"r"`, `requires ""`, `"*"`}},
		"Absent that requires its own key": {
			func(r *Rule) { *r = absent("r", r.Key, r.Key) }, []string{`"r"`, `requires "example.com/pool"`},
		},
		"a bad requires key is refused":     {func(r *Rule) { r.Requires = "/x" }, []string{`"r"`, `requires "/x"`}},
		"a rule without a type is refused":  {func(r *Rule) { r.Type = Unknown }, []string{`"r"`, `capacityType "unknown"`}},
		"a type out of range is refused":    {func(r *Rule) { r.Type = 7 }, []string{`"r"`, "capacityType"}},
		"a wildcard key is no key":          {func(r *Rule) { r.Key = "*" }, []string{`"r"`, `key "*"`}},
		"a wildcard inside requires is bad": {func(r *Rule) { r.Requires = "cloud/*" }, []string{`"r"`, `requires "cloud/*"`}},
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			tc.change(&r)
			err := r.Validate()
			if tc.want == nil {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			for _, part := range tc.want {
				assert.ErrorContains(t, err, part)
			}
		})
	}
}

func TestNewClassifierRefusesWhatValidateRefuses(t *testing.T) {
	_, err := NewClassifier([]Rule{in("a", "x", Spot, "1"), {Name: "b", Key: "x", Operator: Exists}})
	require.ErrorContains(t, err, "rule 1")
	require.ErrorContains(t, err, `node rule "b"`)

	_, err = NewClassifier([]Rule{in("a", "x", Spot, "1"), in("a", "y", Spot, "1")})
	require.ErrorContains(t, err, `name "a": already used by rule 0`)
}

func TestClassifierIsNotChangedThroughItsInputs(t *testing.T) {
	rules := []Rule{in("a", "x", Spot, "1")}
	c, err := NewClassifier(rules)
	require.NoError(t, err)

	rules[0].Values[0] = "2"
	rules[0].Key = "y"

	assertType(t, c, Spot, "a", labelled("x", "1"))
	assert.Equal(t, []string{"x"}, keysOf(c))
}

func TestDefaultRules(t *testing.T) {
	_, err := NewClassifier(DefaultRules())
	require.NoError(t, err)

	rules := DefaultRules()
	rules[0].Values[0], rules[1].Name = "changed", "changed"
	assert.NotEqual(t, rules, DefaultRules(), "a fresh copy each time")

	seenAbsent := false
	for _, r := range DefaultRules() {
		if r.Operator == Absent {
			seenAbsent = true
			assert.Equal(t, OnDemand, r.Type)
			assert.NotEqual(t, AnyNode, r.Requires, "%s: the shipped list may not guess about bare nodes", r.Name)
			continue
		}
		assert.False(t, seenAbsent, "%s: every rule that reads a label comes before the absent rules", r.Name)
	}
}

func TestWithDefaults(t *testing.T) {
	mine := []Rule{
		absent("mine-absent", "example.com/spot", AnyNode),
		in("mine", "example.com/pool", OnDemand, "gold"),
	}
	c, err := NewClassifier(WithDefaults(mine))
	require.NoError(t, err)

	assertType(t, c, OnDemand, "mine", labelled("example.com/pool", "gold", "karpenter.sh/capacity-type", "spot"))
	assertType(t, c, Spot, "karpenter-spot", labelled("karpenter.sh/capacity-type", "spot"))
	assertType(t, c, OnDemand, "mine-absent", labelled("cloud.google.com/gke-nodepool", "p"))
	assert.Equal(t, "mine-absent", mine[0].Name, "the argument keeps its order")

	t.Run("a shipped name replaces the shipped rule", func(t *testing.T) {
		c, err := NewClassifier(WithDefaults([]Rule{in("gke-spot", "cloud.google.com/gke-spot", Spot, "yes")}))
		require.NoError(t, err)
		assertType(t, c, Spot, "gke-spot", labelled("cloud.google.com/gke-spot", "yes"))
		assertType(t, c, Unknown, "", labelled("cloud.google.com/gke-spot", "true"))
	})
	t.Run("no rules of one's own gives the shipped list", func(t *testing.T) {
		assert.Equal(t, DefaultRules(), WithDefaults(nil))
	})
}
