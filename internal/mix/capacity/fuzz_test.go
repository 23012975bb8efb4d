// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// parseLabels parses "key=value" lines. A line without "=" is a key with an empty value.
func parseLabels(text string) map[string]string {
	labels := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		labels[key] = value
	}
	return labels
}

// parseRules parses "operator;key;values,…;requires;type" lines into rules, valid or not.
func parseRules(text string) []Rule {
	var rules []Rule
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSuffix(line, "\n")+";;;;", ";")
		r := Rule{Name: fmt.Sprint(len(rules)), Operator: Operator(f[0]), Key: f[1], Requires: f[3]}
		if f[2] != "" {
			r.Values = strings.Split(f[2], ",")
		}
		r.Type, _ = ParseType(f[4])
		rules = append(rules, r)
	}
	return rules
}

// FuzzClassify: with any labels and rules, nothing panics, an invalid rule list is rejected, and a node without any of
// the keys, and without the label that an Absent rule requires, is Unknown.
func FuzzClassify(f *testing.F) {
	f.Add("karpenter.sh/capacity-type=spot", "In;karpenter.sh/capacity-type;spot;;spot")
	f.Add(
		"scheduling.cast.ai/spot=true\nscheduling.cast.ai/spot-fallback=true",
		"In;scheduling.cast.ai/spot;true;;spot\nExists;x;;;on-demand",
	)
	f.Add("cloud", "Absent;spot;;cloud;on-demand\nAbsent;spot;;*;on-demand")
	f.Add("a=\n=b\n", "Exists;a;;;spot\nIn;a;,x;b;on-demand")
	f.Add("?/%=", "Nope;?;;;")
	shipped, shippedRules := defaults(f), DefaultRules()
	f.Fuzz(func(t *testing.T, labelText, ruleText string) {
		labels, rules := parseLabels(labelText), parseRules(ruleText)
		node := nodeWith(labels)
		checkTotal(t, shipped, shippedRules, labels)

		c, err := NewClassifier(rules)
		firstFault := error(nil)
		for _, r := range rules {
			if firstFault = r.Validate(); firstFault != nil {
				break
			}
		}
		if firstFault != nil {
			require.ErrorContains(t, err, firstFault.Error())
			require.Nil(t, c)
			return
		}
		require.NoError(t, err)
		checkTotal(t, c, rules, labels)
		_, _ = Departing(node)
		_ = Accepting(node)
		_ = Domain(labels, keysOf(c))
	})
}

func checkTotal(t *testing.T, c *Classifier, rules []Rule, labels map[string]string) {
	t.Helper()
	got, name := c.Classify(nodeWith(labels))
	require.Equal(t, got == Unknown, name == "", "a type has a rule, and only a type has one")

	decidable := false
	for _, r := range rules {
		_, key := labels[r.Key]
		_, evidence := labels[r.Requires]
		decidable = decidable || key || r.Operator == Absent && (evidence || r.Requires == AnyNode)
	}
	if !decidable {
		assert.Equal(t, Unknown, got)
	}
}
