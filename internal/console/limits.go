// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
)

// limitView is a ResourceLimit as it is shown. All texts are inert.
type limitView struct {
	RowID, URL                        string
	Namespace, Name, Description, Age string
	Deleted                           bool
	Sizes                             []fact
	// NodeSelector, Required and Preferred are its scheduling rules, none of them if it has none. A node must match one of Required.
	NodeSelector, Required, Preferred []string
	Volumes                           []string
	Pods, Workloads                   int32
	Users                             []string
	Conditions                        []fact
}

// Schedules reports whether the limit has scheduling rules.
func (v *limitView) Schedules() bool {
	return len(v.NodeSelector)+len(v.Required)+len(v.Preferred) > 0
}

// fact is a name with a value.
type fact struct{ Name, Value string }

func limitOf(l *v1alpha1.ResourceLimit) *limitView {
	v := &limitView{
		RowID: "l" + fmt.Sprintf("%x", hash(l.Namespace, l.Name)), URL: "/limits/" + url.PathEscape(l.Namespace) + "/" + url.PathEscape(l.Name),
		Namespace: inert(l.Namespace), Name: inert(l.Name), Description: inert(l.Spec.Description), Deleted: l.DeletionTimestamp != nil,
		Age:  l.CreationTimestamp.UTC().Format("2006-01-02 15:04:05 UTC"),
		Pods: l.Status.PodCount, Workloads: l.Status.WorkloadCount, Sizes: sizesOf(&l.Spec),
	}
	for _, key := range slices.Sorted(maps.Keys(l.Spec.NodeSelector)) {
		v.NodeSelector = append(v.NodeSelector, inert(key+"="+l.Spec.NodeSelector[key]))
	}
	if a := l.Spec.NodeAffinity; a != nil {
		v.Required, v.Preferred = required(a), preferred(a)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Spec.Volumes)) {
		volume := l.Spec.Volumes[name]
		v.Volumes = append(v.Volumes, inert(strings.TrimSpace(name+": "+volume.Size.String()+" "+volume.MountPath)))
	}
	for _, w := range l.Status.Workloads {
		v.Users = append(v.Users, inert(w.Kind+" "+w.Namespace+"/"+w.Name))
	}
	for i := range l.Status.Conditions {
		v.Conditions = append(v.Conditions, conditionOf(&l.Status.Conditions[i]))
	}
	return v
}

func conditionOf(c *metav1.Condition) fact {
	return fact{inert(c.Type), inert(strings.TrimSpace(string(c.Status) + " " + c.Reason + " " + c.Message))}
}

func sizesOf(s *v1alpha1.ResourceLimitSpec) (sizes []fact) {
	for _, of := range []struct {
		name string
		q    *resource.Quantity
	}{
		{"CPU", s.CPU},
		{"Memory", s.Memory},
		{"CPU limit", s.CPULimit},
		{"Memory limit", s.MemoryLimit},
		{"Ephemeral storage", s.EphemeralStorage},
	} {
		if of.q != nil {
			sizes = append(sizes, fact{of.name, inert(of.q.String())})
		}
	}
	return sizes
}

// required are the terms of which a node must match one.
func required(a *v1alpha1.NodeAffinity) (terms []string) {
	if a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	for i := range a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		terms = append(terms, term(&a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[i]))
	}
	return terms
}

func preferred(a *v1alpha1.NodeAffinity) (terms []string) {
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		p := &a.PreferredDuringSchedulingIgnoredDuringExecution[i]
		terms = append(terms, fmt.Sprintf("weight %d: %s", p.Weight, term(&p.Preference)))
	}
	return terms
}

// term is a term in words: all of its requirements must be met.
func term(t *v1alpha1.NodeTerm) string {
	var all []string
	for _, r := range t.MatchExpressions {
		all = append(all, strings.TrimSpace(r.Key+" "+string(r.Operator)+" "+strings.Join(r.Values, ", ")))
	}
	for _, r := range t.MatchFields {
		all = append(all, r.Key+" "+string(r.Operator)+" "+strings.Join(r.Values, ", "))
	}
	return inert(strings.Join(all, " and "))
}

// limitsPage is the page of all limits, by namespace and name.
func limitsPage(_ []string, q url.Values, s *state) (*page, error) {
	sorted := slices.SortedFunc(slices.Values(s.Limits), func(a, b *v1alpha1.ResourceLimit) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	v := struct {
		All    int
		Paging paging
	}{len(sorted), pagingOf("Pages of limits", "/limits", url.Values{}, q.Get("page"), len(sorted))}
	list := &part{id: "limits", before: render("limits-before", v), after: render("limits-after", v)}
	for _, l := range rowsOf(v.Paging, sorted) {
		view := limitOf(l)
		list.rows = append(list.rows, newRow(view.RowID, render("limit-row", view)))
	}
	return &page{title: "Resource limits", parts: append(status(s), list)}, nil
}

// limitPage is the page of one limit.
func limitPage(path []string, _ url.Values, s *state) (*page, error) {
	for _, l := range s.Limits {
		if l.Namespace == path[0] && l.Name == path[1] {
			v := limitOf(l)
			return &page{title: v.Namespace + "/" + v.Name, parts: append(status(s), &part{id: "limit", before: render("limit", v)})}, nil
		}
	}
	return nil, fmt.Errorf("there is no ResourceLimit %s, or you may not read it", inert(strings.Join(path, "/")))
}
