// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/budget"
)

const (
	// maxRows bounds the rows of a form, which are more than a valid ResourceLimit has.
	maxRows = 640
	// maxQuantity bounds the text of a quantity, whose digits are all parsed.
	maxQuantity = 64
	// spareRows are the empty rows that a form offers.
	spareRows = 2
)

// limitForm is a ResourceLimit as the texts that a user edits. Unlike on other pages, the texts are not made printable: they are written
// back.
type limitForm struct {
	// Namespace, Name and Version identify what is edited. Version is empty for a new limit.
	Namespace, Name, Version string
	Description              string
	Sizes                    []sizeField
	Labels                   []labelRow
	Rules                    []ruleRow
	// Problems are by the field of the ResourceLimit, such as spec.cpu. The key "" has those of no field.
	Problems map[string][]string
}

// sizeField is a quantity.
type sizeField struct{ Name, Label, Hint, Value string }

// labelRow is a label of nodeSelector.
type labelRow struct{ Key, Value string }

// ruleRow is a requirement of nodeAffinity. The rows of a rule with the same Term are one term: a node must meet all of them.
type ruleRow struct{ Rule, Term, Weight, Of, Key, Operator, Values string }

const (
	ruleRequired, rulePreferred = "required", "preferred"
	ofLabel, ofField            = "label", "field"
)

// sizes are the quantities of a spec by their names in forms, which are those of the fields.
var sizes = []struct {
	name, label, hint string
	of                func(*v1alpha1.ResourceLimitSpec) **resource.Quantity
}{
	{"cpu", "CPU", "Requested cores: 500m, 2", func(s *v1alpha1.ResourceLimitSpec) **resource.Quantity { return &s.CPU }},
	{"memory", "Memory", "Requested bytes: 512Mi, 2Gi", func(s *v1alpha1.ResourceLimitSpec) **resource.Quantity { return &s.Memory }},
	{"cpuLimit", "CPU limit", "Defaults to CPU", func(s *v1alpha1.ResourceLimitSpec) **resource.Quantity { return &s.CPULimit }},
	{"memoryLimit", "Memory limit", "Defaults to memory", func(s *v1alpha1.ResourceLimitSpec) **resource.Quantity { return &s.MemoryLimit }},
	{"ephemeralStorage", "Ephemeral storage", "Bytes on the node", func(s *v1alpha1.ResourceLimitSpec) **resource.Quantity { return &s.EphemeralStorage }},
}

// formOf is the form that edits a ResourceLimit.
func formOf(l *v1alpha1.ResourceLimit) *limitForm {
	f := &limitForm{Namespace: l.Namespace, Name: l.Name, Description: l.Spec.Description}
	if l.Name != "" {
		f.Version = specVersion(l)
	}
	for _, s := range sizes {
		field := sizeField{Name: s.name, Label: s.label, Hint: s.hint}
		if q := *s.of(&l.Spec); q != nil {
			field.Value = q.String()
		}
		f.Sizes = append(f.Sizes, field)
	}
	for _, key := range slices.Sorted(maps.Keys(l.Spec.NodeSelector)) {
		f.Labels = append(f.Labels, labelRow{key, l.Spec.NodeSelector[key]})
	}
	if a := l.Spec.NodeAffinity; a != nil {
		if required := a.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			for i := range required.NodeSelectorTerms {
				f.addTerm(ruleRow{Rule: ruleRequired, Term: strconv.Itoa(i + 1)}, &required.NodeSelectorTerms[i])
			}
		}
		for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
			p := &a.PreferredDuringSchedulingIgnoredDuringExecution[i]
			f.addTerm(ruleRow{Rule: rulePreferred, Term: strconv.Itoa(i + 1), Weight: strconv.Itoa(int(p.Weight))}, &p.Preference)
		}
	}
	return f
}

func (f *limitForm) addTerm(row ruleRow, t *v1alpha1.NodeTerm) {
	for _, r := range t.MatchExpressions {
		row.Of, row.Key, row.Operator, row.Values = ofLabel, r.Key, string(r.Operator), joined(r.Values)
		f.Rules = append(f.Rules, row)
	}
	for _, r := range t.MatchFields {
		row.Of, row.Key, row.Operator, row.Values = ofField, r.Key, string(r.Operator), joined(r.Values)
		f.Rules = append(f.Rules, row)
	}
}

// spare has empty rows after those that there are. An empty rule is a term of its own.
func (f *limitForm) spare() *limitForm {
	out := *f
	out.Labels = slices.Concat(f.Labels, make([]labelRow, spareRows))
	out.Rules = slices.Clone(f.Rules)
	for range spareRows {
		out.Rules = append(out.Rules, ruleRow{
			Rule: ruleRequired, Term: strconv.Itoa(len(f.termsOf(ruleRequired)) + 1), Of: ofLabel, Operator: string(v1alpha1.NodeOpIn),
		})
	}
	return &out
}

// readForm is the form that a browser sends. The rows of a table are the values of its columns, in their order.
func readForm(sent url.Values) (*limitForm, error) {
	f := &limitForm{
		Namespace: strings.TrimSpace(sent.Get("namespace")), Name: strings.TrimSpace(sent.Get("name")), Version: sent.Get("version"),
		Description: strings.ReplaceAll(sent.Get("description"), "\r\n", "\n"),
	}
	for _, s := range sizes {
		f.Sizes = append(f.Sizes, sizeField{Name: s.name, Label: s.label, Hint: s.hint, Value: strings.TrimSpace(sent.Get(s.name))})
	}
	labels, err := table(sent, "label-key", "label-value")
	if err != nil {
		return nil, err
	}
	for _, row := range labels {
		if row[0] != "" || row[1] != "" {
			f.Labels = append(f.Labels, labelRow{row[0], row[1]})
		}
	}
	rules, err := table(sent, "rule", "term", "weight", "of", "key", "operator", "values")
	if err != nil {
		return nil, err
	}
	for _, row := range rules {
		if row[4] != "" || row[6] != "" {
			f.Rules = append(f.Rules, ruleRow{row[0], row[1], row[2], row[3], row[4], row[5], row[6]})
		}
	}
	return f, nil
}

// table are rows of a form.
func table(sent url.Values, columns ...string) ([][]string, error) {
	n := len(sent[columns[0]])
	if n > maxRows {
		return nil, fmt.Errorf("the form has %d rows of %s: it must have at most %d", n, columns[0], maxRows)
	}
	rows := make([][]string, n)
	for _, column := range columns {
		if len(sent[column]) != n {
			return nil, fmt.Errorf("the form has %d values of %s and %d of %s", n, columns[0], len(sent[column]), column)
		}
		for i, value := range sent[column] {
			rows[i] = append(rows[i], strings.TrimSpace(value))
		}
	}
	return rows, nil
}

// problem adds a problem of a field.
func (f *limitForm) problem(field, message string) {
	if f.Problems == nil {
		f.Problems = map[string][]string{}
	}
	f.Problems[field] = append(f.Problems[field], message)
}

// apply sets the fields of a ResourceLimit that the form has, and reports whether they could be read. The API server validates them.
func (f *limitForm) apply(l *v1alpha1.ResourceLimit) bool {
	l.Spec.Description = f.Description
	for i, s := range sizes {
		*s.of(&l.Spec) = f.quantity(s.name, f.Sizes[i].Value, *s.of(&l.Spec))
	}
	l.Spec.NodeSelector = nil
	for _, row := range f.Labels {
		if _, twice := l.Spec.NodeSelector[row.Key]; twice {
			f.problem("spec.nodeSelector", fmt.Sprintf("%q is there twice", row.Key))
		}
		if l.Spec.NodeSelector == nil {
			l.Spec.NodeSelector = map[string]string{}
		}
		l.Spec.NodeSelector[row.Key] = row.Value
	}
	l.Spec.NodeAffinity = f.affinity()
	return len(f.Problems) == 0
}

// quantity reads a quantity. One that is the same keeps its text.
func (f *limitForm) quantity(name, text string, old *resource.Quantity) *resource.Quantity {
	if text == "" {
		return nil
	}
	if len(text) > maxQuantity {
		f.problem("spec."+name, fmt.Sprintf("a quantity has at most %d characters", maxQuantity))
		return nil
	}
	q, err := budget.ParseQuantity(text)
	if err != nil {
		f.problem("spec."+name, fmt.Sprintf("%q is not a quantity, such as 500m or 2Gi", text))
		return nil
	}
	if old != nil && old.Cmp(q) == 0 {
		return old
	}
	return &q
}

// affinity are the rules, nil for none.
func (f *limitForm) affinity() *v1alpha1.NodeAffinity {
	if len(f.Rules) == 0 {
		return nil
	}
	for _, row := range f.Rules {
		if row.Rule != ruleRequired && row.Rule != rulePreferred || row.Of != ofLabel && row.Of != ofField {
			f.problem("spec.nodeAffinity", fmt.Sprintf("%q of %q is not a rule", row.Rule, row.Of))
		}
	}
	a := &v1alpha1.NodeAffinity{}
	for _, row := range f.termsOf(ruleRequired) {
		if a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
			a.RequiredDuringSchedulingIgnoredDuringExecution = &v1alpha1.NodeTerms{}
		}
		required := &a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		*required = append(*required, f.term(ruleRequired, row.Term))
	}
	for _, row := range f.termsOf(rulePreferred) {
		weight, err := strconv.ParseInt(row.Weight, 10, 32)
		if err != nil {
			f.problem("spec.nodeAffinity", fmt.Sprintf("weight %q of term %s must be a number from 1 to 100", row.Weight, row.Term))
		}
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
			v1alpha1.PreferredNodeTerm{Weight: int32(weight), Preference: f.term(rulePreferred, row.Term)})
	}
	return a
}

// termsOf are the first rows of the terms of a rule.
func (f *limitForm) termsOf(rule string) (first []ruleRow) {
	for _, row := range f.Rules {
		same := func(r ruleRow) bool { return r.Term == row.Term }
		if row.Rule == rule && !slices.ContainsFunc(first, same) {
			first = append(first, row)
		}
	}
	return first
}

func (f *limitForm) term(rule, term string) (t v1alpha1.NodeTerm) {
	for _, row := range f.Rules {
		if row.Rule != rule || row.Term != term {
			continue
		}
		values := splitValues(row.Values)
		if row.Of == ofField {
			t.MatchFields = append(t.MatchFields,
				v1alpha1.NodeFieldRequirement{Key: row.Key, Operator: v1alpha1.NodeFieldOperator(row.Operator), Values: values})
			continue
		}
		t.MatchExpressions = append(t.MatchExpressions,
			v1alpha1.NodeRequirement{Key: row.Key, Operator: v1alpha1.NodeOperator(row.Operator), Values: values})
	}
	return t
}

// emptyValue is an empty value among those of a row.
const emptyValue = `""`

// joined and splitValues write and read the values of a row.
func joined(values []string) string {
	texts := slices.Clone(values)
	for i := range texts {
		texts[i] = cmp.Or(texts[i], emptyValue)
	}
	return strings.Join(texts, ", ")
}

func splitValues(text string) (values []string) {
	if text == "" {
		return nil
	}
	for value := range strings.SplitSeq(text, ",") {
		if value = strings.TrimSpace(value); value == emptyValue {
			value = ""
		}
		values = append(values, value)
	}
	return values
}
