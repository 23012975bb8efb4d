// SPDX-License-Identifier: Apache-2.0

package console

import (
	"net/http"
	"net/url"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
)

// appliedParameter is in the URL of the page of a mix to which a plan, or a form, was applied.
const appliedParameter = "applied"

// beforeParameter has the numbers of a mix before a plan was applied, as the parameters of its plan.
const beforeParameter = "before"

// redirectApplied leads from a form to the page that reports that it was applied. With before, that page leads to the plan of these
// numbers, which undoes it.
func redirectApplied(w http.ResponseWriter, r *http.Request, to string, before url.Values) {
	q := url.Values{appliedParameter: {"1"}}
	if before != nil {
		q.Set(beforeParameter, before.Encode())
	}
	http.Redirect(w, r, to+"?"+q.Encode(), http.StatusSeeOther) //nolint:gosec // a path of the console
}

// undoURL is the plan of the numbers that a mix had before, "" if the URL of a page has none.
func undoURL(m *v1alpha1.CapacityMix, q url.Values) string {
	before, err := url.ParseQuery(q.Get(beforeParameter))
	if err != nil || !before.Has(numbers[0]) {
		return ""
	}
	f := mixFormOf(m, before)
	if _, err := f.question(m); err != nil {
		return ""
	}
	return planURL(m) + "?" + f.parameters().Encode()
}

// mostApplied bounds the workloads of a mix that a page leads to.
const mostApplied = 8

// appliedTo is what a page reports after a plan, or a form, was applied: what the mix is now, and where its workloads are. It is nil on
// other pages.
func appliedTo(m *v1alpha1.CapacityMix, q url.Values, s *state) *part {
	if !q.Has(appliedParameter) {
		return nil
	}
	type of struct{ Name, URL string }
	v := struct {
		Name, Rule, Undo string
		Workloads        []of
	}{Name: inert(m.Namespace + "/" + m.Name)}
	if s.plans && s.writable {
		v.Undo = undoURL(m, q)
	}
	if mix, _, err := governing.FromCapacityMix(m); err == nil {
		v.Rule = mix.Mix.String()
	}
	for i := range s.Overview.Workloads {
		w := &s.Overview.Workloads[i]
		if w.Namespace == m.Namespace && w.Source == governing.SourceCapacityMix+m.Name && len(v.Workloads) < mostApplied {
			v.Workloads = append(v.Workloads, of{nameOf(w), workloadURL(w) + "#moves"})
		}
	}
	return &part{id: "applied", before: render("applied", v), fixed: true}
}
