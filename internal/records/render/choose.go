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
	// Edge and Datacenter are the kind of the location.
	Edge, Datacenter bool
	// Missing returns why an API group cannot be used, "" if it can. Nil means that none can.
	Missing func(group string) string
}

// Choice is the template of a record.
type Choice struct {
	Template *v1alpha1.DeploymentTemplate
	// Instead is why the template that the record requested is not used, "" if it is or there is none. The template is then
	// chosen by score.
	Instead string
}

// ChooseTemplate returns the template of a record: the one that it names if that can be used here, else the one with the highest
// score among those that can be used here and meet the requirements. The caller leaves out templates that are hidden by one of the
// same name.
func ChooseTemplate(spec *v1alpha1.DeploymentRecordSpec, templates []*v1alpha1.DeploymentTemplate, env Environment) (Choice, error) {
	var c Choice
	if hint := spec.TemplateHint; hint != "" {
		c.Instead = fmt.Sprintf("there is no DeploymentTemplate %q, only %s", hint, namesOfAll(templates))
		for _, t := range templates {
			if !GoesBy(t, hint) {
				continue
			}
			if c.Instead = missing(t, env); c.Instead == "" {
				c.Template = t
				return c, nil
			}
			break
		}
	}
	nfr := strictestOf(spec)
	best := slices.SortedFunc(slices.Values(templates), func(a, b *v1alpha1.DeploymentTemplate) int {
		return cmp.Or(cmp.Compare(Score(b, nfr, env), Score(a, nfr, env)),
			cmp.Compare(a.Spec.Selection.Order, b.Spec.Selection.Order), cmp.Compare(a.Name, b.Name))
	})
	var why []string
	for _, t := range best {
		switch lacks := missing(t, env); {
		case lacks != "":
			why = append(why, lacks)
		case !canMeet(t.Spec.Capabilities, nfr):
			why = append(why, fmt.Sprintf("template %s cannot meet the requirements", t.Name))
		default:
			c.Template = t
			return c, nil
		}
	}
	if len(templates) == 0 {
		return c, noTemplate("there is no DeploymentTemplate")
	}
	return c, noTemplate("no DeploymentTemplate can be used: %s", strings.Join(why, "; "))
}

// namesOfAll returns the names of templates, sorted.
func namesOfAll(templates []*v1alpha1.DeploymentTemplate) string {
	var names []string
	for _, t := range templates {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return cmp.Or(strings.Join(names, ", "), "none")
}

func noTemplate(format string, args ...any) *Error {
	return &Error{v1alpha1.ReasonNoTemplate, fmt.Errorf(format, args...)}
}

// GoesBy reports whether a template has a name, or an alias that is it.
func GoesBy(t *v1alpha1.DeploymentTemplate, name string) bool {
	return t.Name == name || slices.Contains(t.Spec.Aliases, name)
}

// missing returns why a template cannot be used here, "" if it can.
func missing(t *v1alpha1.DeploymentTemplate, env Environment) string {
	for _, g := range t.Spec.Requires {
		why := "which the API server does not serve"
		if env.Missing != nil {
			why = env.Missing(g)
		}
		if why != "" {
			return fmt.Sprintf("template %s needs API group %s, %s", t.Name, g, why)
		}
	}
	return ""
}

// canMeet reports whether a template can meet the requirements.
func canMeet(c *v1alpha1.TemplateCapabilities, nfr v1alpha1.NFRRequirements) bool {
	switch {
	case c == nil:
	case c.MaxThroughputRPS != nil && nfr.MinThroughputRPS != nil && *nfr.MinThroughputRPS > *c.MaxThroughputRPS:
		return false
	case c.MinLatencyMS != nil && nfr.MaxLatencyMS != nil && *nfr.MaxLatencyMS < *c.MinLatencyMS:
		return false
	}
	return true
}

// Score returns the score of a template: its base for the environment, and its bonuses for the requirements.
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
		if b := &t.Spec.Selection.Bonuses[i]; applies(b, nfr) {
			score += int(b.Score)
		}
	}
	return score
}

// applies reports whether a record has all requirements of a bonus.
func applies(b *v1alpha1.ScoreBonus, nfr v1alpha1.NFRRequirements) bool {
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

// strictestOf returns the strictest requirements of a record and its functions.
func strictestOf(spec *v1alpha1.DeploymentRecordSpec) (strictest v1alpha1.NFRRequirements) {
	all := []*v1alpha1.NFRRequirements{spec.NFRRequirements}
	for i := range spec.DeploymentUnit.Functions {
		all = append(all, spec.DeploymentUnit.Functions[i].NFRRequirements)
	}
	for _, n := range all {
		if n == nil {
			continue
		}
		strictest.MinThroughputRPS = stricter(strictest.MinThroughputRPS, n.MinThroughputRPS, func(a, b int32) bool { return a > b })
		strictest.MaxLatencyMS = stricter(strictest.MaxLatencyMS, n.MaxLatencyMS, func(a, b int32) bool { return a < b })
		strictest.Availability = stricter(strictest.Availability, n.Availability, func(a, b string) bool { return Number(a) > Number(b) })
		if n.Consistency == v1alpha1.ConsistencyStrong || strictest.Consistency == "" {
			strictest.Consistency = n.Consistency
		}
	}
	return strictest
}

// stricter returns the stricter of two requirements, of which either may be absent.
func stricter[T any](a, b *T, is func(T, T) bool) *T {
	if a == nil || b != nil && is(*b, *a) {
		return b
	}
	return a
}

// Number parses a decimal number that the CRD has validated.
func Number(text string) float64 {
	f, _ := strconv.ParseFloat(text, 64)
	return f
}
