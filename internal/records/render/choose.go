// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth.dev/berth/apis/v1alpha1"
)

// Environment is where the controller runs.
type Environment struct {
	// Profile is the profile of the controller: dev, edge, full, prod, production, or any other name.
	Profile string
	// Edge and Datacenter say what kind of place it is.
	Edge, Datacenter bool
	// Served says whether the API server has an API group.
	Served func(group string) bool
}

// Choice is the template of a record.
type Choice struct {
	Template *v1alpha1.DeploymentTemplate
	// Score is what it had, where it was not named.
	Score int
	// Named says that the record requested it.
	Named bool
	// UnknownHint is the hint of the record that no template uses, which is then chosen by score.
	UnknownHint string
}

// NoTemplateError says why there is none.
type NoTemplateError struct{ Why string }

func (e *NoTemplateError) Error() string { return e.Why }

// ChooseTemplate returns the template of a record: the one that it names, else
// the one that suits best among those that can be used here and can do what is
// asked. Templates of the record's own namespace hide others of the same name;
// which those are, the caller has sorted out.
func ChooseTemplate(spec *v1alpha1.DeploymentRecordSpec, templates []*v1alpha1.DeploymentTemplate, env Environment) (Choice, error) {
	var c Choice
	if hint := spec.TemplateHint; hint != "" {
		for _, t := range templates {
			if !GoesBy(t, hint) {
				continue
			}
			if group := missingGroup(t, env); group != "" {
				return c, &NoTemplateError{fmt.Sprintf("template %s needs API group %s, which is not served", t.Name, group)}
			}
			return Choice{Template: t, Named: true}, nil
		}
		c.UnknownHint = hint
	}
	nfr := mostOf(spec)
	best := slices.SortedFunc(slices.Values(templates), func(a, b *v1alpha1.DeploymentTemplate) int {
		return cmp.Or(cmp.Compare(Score(b, nfr, env), Score(a, nfr, env)),
			cmp.Compare(a.Spec.Selection.Order, b.Spec.Selection.Order), cmp.Compare(a.Name, b.Name))
	})
	for _, t := range best {
		if missingGroup(t, env) == "" && able(t.Spec.Capabilities, nfr) {
			c.Template, c.Score = t, Score(t, nfr, env)
			return c, nil
		}
	}
	if len(templates) == 0 {
		return c, &NoTemplateError{"there is no DeploymentTemplate"}
	}
	return c, &NoTemplateError{fmt.Sprintf("none of the %d DeploymentTemplates can be used here and meet the requirements", len(templates))}
}

// GoesBy reports whether a template has a name, or an alias that is it.
func GoesBy(t *v1alpha1.DeploymentTemplate, name string) bool {
	return t.Name == name || slices.Contains(t.Spec.Aliases, name)
}

func missingGroup(t *v1alpha1.DeploymentTemplate, env Environment) string {
	for _, g := range t.Spec.Requires {
		if env.Served == nil || !env.Served(g) {
			return g
		}
	}
	return ""
}

// able reports whether a template can meet the requirements.
func able(c *v1alpha1.TemplateCapabilities, nfr v1alpha1.NFRRequirements) bool {
	switch {
	case c == nil:
	case c.MaxThroughputRPS != nil && nfr.MinThroughputRPS != nil && *nfr.MinThroughputRPS > *c.MaxThroughputRPS:
		return false
	case c.MinLatencyMS != nil && nfr.MaxLatencyMS != nil && *nfr.MaxLatencyMS < *c.MinLatencyMS:
		return false
	}
	return true
}

// Score says how well a template suits: what it has for the place, and what is
// added for what is requested.
func Score(t *v1alpha1.DeploymentTemplate, nfr v1alpha1.NFRRequirements, env Environment) int {
	score := 0
	for i := range t.Spec.Selection.Base {
		b := &t.Spec.Selection.Base[i]
		if len(b.Profiles) > 0 && !slices.Contains(b.Profiles, strings.ToLower(env.Profile)) ||
			b.Edge != nil && *b.Edge != env.Edge || b.Datacenter != nil && *b.Datacenter != env.Datacenter {
			continue
		}
		score = int(b.Score)
		break
	}
	for i := range t.Spec.Selection.Bonuses {
		if b := &t.Spec.Selection.Bonuses[i]; asked(b, nfr) {
			score += int(b.Score)
		}
	}
	return score
}

// asked reports whether a record requests all that a bonus is for.
func asked(b *v1alpha1.ScoreBonus, nfr v1alpha1.NFRRequirements) bool {
	switch {
	case b.MinThroughputRPS != nil && (nfr.MinThroughputRPS == nil || *nfr.MinThroughputRPS < *b.MinThroughputRPS):
		return false
	case b.MaxLatencyMS != nil && (nfr.MaxLatencyMS == nil || *nfr.MaxLatencyMS > *b.MaxLatencyMS):
		return false
	case b.Availability != "" && (nfr.Availability == nil || Number(*nfr.Availability) < Number(b.Availability)):
		return false
	case b.Consistency != "" && nfr.Consistency != b.Consistency:
		return false
	}
	return true
}

// mostOf returns the hardest requirements of a record and its functions.
func mostOf(spec *v1alpha1.DeploymentRecordSpec) (most v1alpha1.NFRRequirements) {
	all := []*v1alpha1.NFRRequirements{spec.NFRRequirements}
	for i := range spec.DeploymentUnit.Functions {
		all = append(all, spec.DeploymentUnit.Functions[i].NFRRequirements)
	}
	for _, n := range all {
		if n == nil {
			continue
		}
		most.MinThroughputRPS = harder(most.MinThroughputRPS, n.MinThroughputRPS, func(a, b int32) bool { return a > b })
		most.MaxLatencyMS = harder(most.MaxLatencyMS, n.MaxLatencyMS, func(a, b int32) bool { return a < b })
		most.Availability = harder(most.Availability, n.Availability, func(a, b string) bool { return Number(a) > Number(b) })
		if n.Consistency == v1alpha1.ConsistencyStrong || most.Consistency == "" {
			most.Consistency = n.Consistency
		}
	}
	return most
}

// harder returns the harder of two requirements, of which either may be absent.
func harder[T any](a, b *T, is func(T, T) bool) *T {
	if a == nil || b != nil && is(*b, *a) {
		return b
	}
	return a
}

// RequirementsOf returns what is requested of a function: what it says itself, and for the rest what is requested of the class.
func RequirementsOf(spec *v1alpha1.DeploymentRecordSpec, f *v1alpha1.FunctionSpec) v1alpha1.NFRRequirements {
	var n v1alpha1.NFRRequirements
	for _, from := range []*v1alpha1.NFRRequirements{f.NFRRequirements, spec.NFRRequirements} {
		if from == nil {
			continue
		}
		n.MinThroughputRPS = cmp.Or(n.MinThroughputRPS, from.MinThroughputRPS)
		n.MaxLatencyMS = cmp.Or(n.MaxLatencyMS, from.MaxLatencyMS)
		n.Availability = cmp.Or(n.Availability, from.Availability)
		n.CPUUtilizationTarget = cmp.Or(n.CPUUtilizationTarget, from.CPUUtilizationTarget)
		n.Consistency = cmp.Or(n.Consistency, from.Consistency)
	}
	return n
}

// Number reads a decimal number that the CRD's rules have let pass.
func Number(text string) float64 {
	f, _ := strconv.ParseFloat(text, 64)
	return f
}
