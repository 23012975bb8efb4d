// SPDX-License-Identifier: Apache-2.0

package console

import (
	"net/http"
	"net/url"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/governing"
)

// appliedParameter is in the URL of the page of an object to which a form, or a plan, was applied.
const appliedParameter = "applied"

// beforeParameter has the parameters of the page that undoes what was applied: of the plan of the numbers before, or of the form of the
// object as it was before.
const beforeParameter = "before"

// redirectApplied leads from a form to the page that reports that it was applied. With before, that page leads to the one that undoes it.
func redirectApplied(w http.ResponseWriter, r *http.Request, to string, before url.Values) {
	q := url.Values{appliedParameter: {"1"}}
	if before != nil {
		q.Set(beforeParameter, before.Encode())
	}
	http.Redirect(w, r, to+"?"+q.Encode(), http.StatusSeeOther) //nolint:gosec // a path of the console
}

// undoing is the page that undoes what was applied, with a text that leads there, and the fields that a form has changed.
type undoing struct {
	URL, Text string
	Fields    []string
}

// undoingOf is how the URL of a page undoes what was applied to an object. It has no URL if nothing does.
func undoingOf(k *editedKind, o client.Object, q url.Values, s *state) (u undoing) {
	before, err := url.ParseQuery(q.Get(beforeParameter))
	if err != nil {
		return u
	}
	if undo := before.Get(undoParameter); undo != "" {
		if u.Fields = allInert(undoneFields(undo)); u.Fields != nil && s.writable {
			u.URL = objectURL(k.id, o.GetNamespace(), o.GetName()) + "/" + editForm + "?" + url.Values{undoParameter: {undo}}.Encode()
			u.Text = "Undo: review the " + k.noun + " as it was before"
		}
		return u
	}
	m, is := o.(*v1alpha1.CapacityMix)
	if !is || !before.Has(numbers[0]) || !s.plans || !s.writable {
		return u
	}
	f := mixFormOf(m, before)
	if _, err := f.question(m); err == nil {
		u.URL, u.Text = planURL(m)+"?"+f.parameters().Encode(), "Undo: plan the numbers of before"
	}
	return u
}

// mostApplied bounds the workloads of a mix that a page leads to.
const mostApplied = 8

// appliedTo is what a page reports after a form, or a plan, was applied: what the object is now, what follows and, for a mix, where its
// workloads are. It is nil on other pages.
func appliedTo(k *editedKind, o client.Object, q url.Values, s *state) *part {
	if !q.Has(appliedParameter) {
		return nil
	}
	v := struct {
		Kind, Name, Rule, Follows string
		Undo                      undoing
		Workloads                 []link
	}{Kind: k.kind, Name: inert(o.GetNamespace() + "/" + o.GetName()), Follows: k.follows, Undo: undoingOf(k, o, q, s)}
	if m, is := o.(*v1alpha1.CapacityMix); is {
		if mix, _, err := governing.FromCapacityMix(m); err == nil {
			v.Rule = mix.Mix.String()
		}
		v.Workloads = s.governedBy(m)
	}
	return &part{id: "applied", before: render("applied", v), fixed: true}
}

// governedBy are the moves of the first workloads that a mix governs.
func (s *state) governedBy(m *v1alpha1.CapacityMix) (links []link) {
	for i := range s.Overview.Workloads {
		w := &s.Overview.Workloads[i]
		if w.Namespace == m.Namespace && w.Source == governing.SourceCapacityMix+m.Name && len(links) < mostApplied {
			links = append(links, link{Name: nameOf(w), URL: workloadURL(w) + "#moves"})
		}
	}
	return links
}
