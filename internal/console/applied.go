// SPDX-License-Identifier: Apache-2.0

package console

import (
	"net/http"
	"net/url"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
)

// appliedParameter is in the URL of the page of a mix to which a plan was applied.
const appliedParameter = "applied"

// redirectApplied leads from the form of a plan to the page that reports that it was applied.
func redirectApplied(w http.ResponseWriter, r *http.Request, to string) {
	http.Redirect(w, r, to+"?"+appliedParameter+"=1", http.StatusSeeOther) //nolint:gosec // a path of the console
}

// mostApplied bounds the workloads of a mix that a page leads to.
const mostApplied = 8

// appliedTo is what a page reports after a plan was applied: what the mix is now, and where its workloads are. It is nil on other
// pages.
func appliedTo(m *v1alpha1.CapacityMix, q url.Values, s *state) *part {
	if !q.Has(appliedParameter) {
		return nil
	}
	type of struct{ Name, URL string }
	v := struct {
		Name, Rule string
		Workloads  []of
	}{Name: inert(m.Namespace + "/" + m.Name)}
	if mix, _, err := governing.FromCapacityMix(m); err == nil {
		v.Rule = mix.Mix.String()
	}
	for i := range s.Overview.Workloads {
		w := &s.Overview.Workloads[i]
		if w.Namespace == m.Namespace && w.Source == governing.SourceCapacityMix+m.Name && len(v.Workloads) < mostApplied {
			v.Workloads = append(v.Workloads, of{nameOf(w), workloadURL(w)})
		}
	}
	return &part{id: "applied", before: render("applied", v), fixed: true}
}
