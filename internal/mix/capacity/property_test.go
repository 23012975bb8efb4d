// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// Few keys and values, so that rules often match labels.
var (
	someKeys   = []string{"a", "b", "c", "d"}
	someValues = []string{"", "x", "y", "z"}
)

func genLabels() *rapid.Generator[map[string]string] {
	return rapid.MapOf(rapid.SampledFrom(someKeys), rapid.SampledFrom(someValues))
}

func genRule() *rapid.Generator[Rule] {
	return rapid.Custom(func(t *rapid.T) Rule {
		r := Rule{
			Key:      rapid.SampledFrom(someKeys).Draw(t, "key"),
			Operator: rapid.SampledFrom([]Operator{In, Exists, Absent}).Draw(t, "operator"),
			Requires: rapid.SampledFrom(append([]string{"", AnyNode}, someKeys...)).Draw(t, "requires"),
			Type:     rapid.SampledFrom([]Type{Spot, OnDemand}).Draw(t, "type"),
		}
		if r.Operator == In {
			r.Values = rapid.SliceOfNDistinct(rapid.SampledFrom(someValues), 1, 3, rapid.ID[string]).Draw(t, "values")
		}
		if r.Operator == Absent && (r.Requires == "" || r.Requires == r.Key) {
			r.Requires = AnyNode
		}
		return r
	})
}

func genRules() *rapid.Generator[[]Rule] {
	return rapid.Custom(func(t *rapid.T) []Rule {
		rules := rapid.SliceOfN(genRule(), 0, 6).Draw(t, "rules")
		for i := range rules {
			rules[i].Name = fmt.Sprintf("r%d", i)
		}
		return rules
	})
}

func nodeWith(labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
}

func mustClassifier(t require.TestingT, rules []Rule) *Classifier {
	c, err := NewClassifier(rules)
	require.NoError(t, err)
	return c
}

// model is the specification of one rule, independent of the production code.
func model(r Rule, labels map[string]string) bool {
	_, evidence := labels[r.Requires]
	if r.Requires != "" && r.Requires != "*" && !evidence {
		return false
	}
	v, ok := labels[r.Key]
	return r.Operator == Exists && ok || r.Operator == Absent && !ok || r.Operator == In && ok && slices.Index(r.Values, v) >= 0
}

func TestPropertyFirstMatchWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules, labels := genRules().Draw(t, "rules"), genLabels().Draw(t, "labels")
		want, wantRule := Unknown, ""
		if i := slices.IndexFunc(rules, func(r Rule) bool { return model(r, labels) }); i >= 0 {
			want, wantRule = rules[i].Type, rules[i].Name
		}
		got, rule := mustClassifier(t, rules).Classify(nodeWith(labels))
		assert.Equal(t, want, got)
		assert.Equal(t, wantRule, rule)
	})
}

func TestPropertyPrependingARuleThatDoesNotMatchChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules, labels := genRules().Draw(t, "rules"), genLabels().Draw(t, "labels")
		first := genRule().Filter(func(r Rule) bool { return !model(r, labels) }).Draw(t, "first")
		first.Name = "first"
		wantType, wantRule := mustClassifier(t, rules).Classify(nodeWith(labels))
		gotType, gotRule := mustClassifier(t, append([]Rule{first}, rules...)).Classify(nodeWith(labels))
		assert.Equal(t, wantType, gotType)
		assert.Equal(t, wantRule, gotRule)
	})
}

func TestPropertyClassifyDependsOnNamedLabelsAndTaintsOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules, labels := genRules().Draw(t, "rules"), genLabels().Draw(t, "labels")
		c := mustClassifier(t, rules)
		wantType, wantRule := c.Classify(nodeWith(labels))

		other := nodeWith(map[string]string{})
		maps.Copy(other.Labels, labels)
		named := keysOf(c)
		for _, r := range rules {
			named = append(named, r.Requires)
		}
		for k, v := range rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "noise") {
			if !slices.Contains(named, k) {
				other.Labels[k] = v
			}
		}
		other.Name = rapid.String().Draw(t, "name")
		other.Annotations = genLabels().Draw(t, "annotations")
		other.Spec.Unschedulable = rapid.Bool().Draw(t, "cordoned")
		key := rapid.OneOf(rapid.String(), rapid.SampledFrom(someKeys), rapid.Just("karpenter.sh/disrupted")).
			Filter(func(s string) bool { return !slices.Contains(registrationTaints, s) }).Draw(t, "taint")
		other.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoExecute}}

		gotType, gotRule := c.Classify(other)
		assert.Equal(t, wantType, gotType)
		assert.Equal(t, wantRule, gotRule)

		other.Spec.Taints = append(other.Spec.Taints, corev1.Taint{Key: rapid.SampledFrom(registrationTaints).Draw(t, "half")})
		gotType, gotRule = c.Classify(other)
		assert.Equal(t, Unknown, gotType)
		assert.Empty(t, gotRule)
	})
}

func TestPropertyWithDefaultsAlwaysCompilesWithAbsentRulesLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := genRules().Draw(t, "rules")
		all := WithDefaults(rules)
		mustClassifier(t, all)
		assert.Len(t, all, len(rules)+len(DefaultRules()))
		assert.True(t, slices.IsSortedFunc(all, func(a, b Rule) int { return absentLast(a) - absentLast(b) }))
	})
}

func TestPropertyDomainIsInjectiveOverValueTuples(t *testing.T) {
	// Values from the bytes that the encoding uses, so that ambiguities are found.
	value := rapid.OneOf(rapid.StringMatching(`[/?%253Fa]{0,4}`), rapid.String())
	labels := rapid.MapOf(rapid.SampledFrom(someKeys), value)
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfNDistinct(rapid.SampledFrom(someKeys), 0, 4, rapid.ID[string]).Draw(t, "keys")
		one, two := labels.Draw(t, "one"), labels.Draw(t, "two")
		same := true
		for _, k := range keys {
			v1, ok1 := one[k]
			v2, ok2 := two[k]
			same = same && v1 == v2 && ok1 == ok2
		}
		assert.Equal(t, same, Domain(one, keys) == Domain(two, keys), "%q %q", Domain(one, keys), Domain(two, keys))
		if len(keys) > 0 {
			assert.Equal(t, len(keys)-1, strings.Count(Domain(one, keys), "/"))
		}
	})
}

func TestPropertyPinsIffAKeyIsNamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := mustClassifier(t, genRules().Draw(t, "rules"))
		keys := append([]string{"e", "f"}, someKeys...)
		var named []string
		draw := func(what string) []string {
			return rapid.SliceOfN(rapid.SampledFrom(keys), 0, 3).Draw(t, what)
		}
		spec := preferring(term(expression(rapid.SampledFrom(keys).Draw(t, "preferred"), corev1.NodeSelectorOpExists)))
		if selector := draw("selector"); len(selector) > 0 {
			spec.NodeSelector = map[string]string{}
			for _, k := range selector {
				spec.NodeSelector[k] = "v"
				named = append(named, k)
			}
		}
		var terms []corev1.NodeSelectorTerm
		for i := range rapid.IntRange(0, 2).Draw(t, "terms") {
			var expressions []corev1.NodeSelectorRequirement
			for _, k := range draw(fmt.Sprintf("term %d", i)) {
				expressions = append(expressions, expression(k, corev1.NodeSelectorOpExists))
				named = append(named, k)
			}
			terms = append(terms, term(expressions...))
		}
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: terms}

		want := slices.ContainsFunc(named, func(k string) bool { return slices.Contains(keysOf(c), k) })
		assert.Equal(t, want, c.Pins(spec))
	})
}

// Conditions come in any order, from several writers, and stay when they are over.
func TestPropertyDepartingIffAConditionOfADepartureIsTrue(t *testing.T) {
	counts := []corev1.NodeConditionType{
		"Terminating", "DrainInProgress", "Drained", "MaintenanceInProgress", "GracefulNodeShutdownInProgress",
	}
	types := append([]corev1.NodeConditionType{"Ready", "MemoryPressure", "MaintenancePlanned", "PreemptionScheduled", "Drain"}, counts...)
	statuses := []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown, ""}
	rapid.Check(t, func(t *rapid.T) {
		node, want := nodeWith(genLabels().Draw(t, "labels")), false
		for _, c := range rapid.SliceOfDistinct(rapid.SampledFrom(types), rapid.ID[corev1.NodeConditionType]).Draw(t, "conditions") {
			status := rapid.SampledFrom(statuses).Draw(t, "status")
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: c, Status: status})
			want = want || status == corev1.ConditionTrue && slices.Contains(counts, c)
		}
		reason, departing := Departing(node)
		assert.Equal(t, want, departing, "%v", node.Status.Conditions)
		assert.Equal(t, want, reason != "")
		assert.Equal(t, !want, Accepting(node))
	})
}

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
