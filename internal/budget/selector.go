// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Selector is a compiled label selector. A match takes one look-up for each requirement, however many values it has. It
// is immutable.
type Selector struct {
	requirements []requirement
	// nothing marks a selector that selects no labels.
	nothing bool
}

type requirement struct {
	key string
	// values are those that the operators In and NotIn compare with, nil for Exists and DoesNotExist.
	values sets.Set[string]
	// absent reports that labels without the key match: NotIn and DoesNotExist.
	absent bool
}

type label struct{ key, value string }

// CompileSelector compiles a label selector of the API: the operators =, ==, !=, in, notin, exists and !.
func CompileSelector(selector labels.Selector) *Selector {
	all, selectable := selector.Requirements()
	s := &Selector{nothing: !selectable}
	for i := range all {
		r := requirement{key: all[i].Key()}
		switch all[i].Operator() {
		case selection.DoesNotExist:
			r.absent = true
		case selection.NotIn, selection.NotEquals:
			r.absent, r.values = true, sets.New(all[i].ValuesUnsorted()...)
		case selection.In, selection.Equals, selection.DoubleEquals:
			r.values = sets.New(all[i].ValuesUnsorted()...)
		case selection.Exists:
		default: // Gt and Lt, which no selector of the API has
			s.nothing = true
		}
		s.requirements = append(s.requirements, r)
	}
	return s
}

// Cost is the number of look-ups of a match, at most.
func (s *Selector) Cost() int { return 1 + len(s.requirements) }

// Matches reports whether the selector selects labels.
func (s *Selector) Matches(set map[string]string) bool {
	if s.nothing {
		return false
	}
	for i := range s.requirements {
		if !s.requirements[i].matches(set) {
			return false
		}
	}
	return true
}

func (r *requirement) matches(set map[string]string) bool {
	value, exists := set[r.key]
	switch {
	case !exists:
		return r.absent
	case r.values == nil:
		return !r.absent
	}
	return r.values.Has(value) != r.absent
}

// required returns, for each requirement that a label has one of several values, these labels. Labels with none of them
// are not selected.
func (s *Selector) required() (all [][]label) {
	for i := range s.requirements {
		r := &s.requirements[i]
		if r.absent || r.values == nil {
			continue
		}
		of := make([]label, 0, len(r.values))
		for value := range r.values {
			of = append(of, label{r.key, value})
		}
		all = append(all, of)
	}
	return all
}
