// SPDX-License-Identifier: Apache-2.0

package derive

import (
	"maps"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth.dev/berth/internal/sim/scenario"
)

// disruption is a PodDisruptionBudget with what it selects, and the number of workloads that it selects pods of.
type disruption struct {
	of        *policyv1.PodDisruptionBudget
	selects   labels.Selector
	workloads int
}

// where is a label in a namespace, or no label.
type where struct{ namespace, key, value string }

// disruptions are the PodDisruptionBudgets by one of the labels that they require: most budgets of a namespace select other workloads.
type disruptions struct {
	all []*disruption
	by  map[where][]*disruption
}

// budgets returns the budgets of the snapshot that are valid.
func (d *deriver) budgets() *disruptions {
	out := &disruptions{by: map[where][]*disruption{}}
	for _, o := range d.PodDisruptionBudgets {
		selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector)
		if _, ok := allowed(o, 1); err != nil || !ok {
			d.notes.add(invalidBudgets, nameOf(o))
			continue
		}
		b := &disruption{of: o, selects: selector}
		out.all = append(out.all, b)
		at := where{namespace: o.Namespace}
		if o.Spec.Selector != nil && len(o.Spec.Selector.MatchLabels) > 0 {
			at.key = slices.Min(slices.Collect(maps.Keys(o.Spec.Selector.MatchLabels)))
			at.value = o.Spec.Selector.MatchLabels[at.key]
		}
		out.by[at] = append(out.by[at], b)
	}
	return out
}

// selecting returns the budgets that select pods with these labels.
func (all *disruptions) selecting(namespace string, set map[string]string) (list []*disruption) {
	add := func(at where) {
		for _, b := range all.by[at] {
			if b.selects.Matches(labels.Set(set)) {
				list = append(list, b)
			}
		}
	}
	add(where{namespace: namespace})
	for _, key := range slices.Sorted(maps.Keys(set)) {
		if key != "" {
			add(where{namespace, key, set[key]})
		}
	}
	return list
}

// budget sets maxUnavailable to that of the strictest budget that selects the pods of a workload.
func (d *deriver) budget(all *disruptions, w *workload, of *scenario.Workload) {
	var strictest *policyv1.PodDisruptionBudget
	fewest, n := 0, int(of.Replicas)
	list := all.selecting(w.namespace, w.like().Labels)
	for _, b := range list {
		b.workloads++
		if may, _ := allowed(b.of, n); strictest == nil || may < fewest {
			strictest, fewest = b.of, may
		}
	}
	if len(list) > 1 {
		d.notes.add(severalBudgets, w.title())
	}
	if strictest == nil || strictest.Spec.MaxUnavailable == nil && strictest.Spec.MinAvailable == nil {
		return
	}
	if most := strictest.Spec.MaxUnavailable; most != nil && most.Type == intstr.String && fewest <= n {
		of.MaxUnavailable = new(*most)
		return
	}
	if strictest.Spec.MaxUnavailable == nil {
		d.notes.add(minAvailable, w.title())
	}
	of.MaxUnavailable = new(intstr.FromInt(min(max(fewest, 0), scenario.MaxPods)))
}

// allowed is how many of a number of pods a budget allows to be missing, by the arithmetic of kube-controller-manager. A budget that is not
// valid has none.
func allowed(b *policyv1.PodDisruptionBudget, of int) (n int, ok bool) {
	limit, most := b.Spec.MinAvailable, b.Spec.MaxUnavailable
	if most != nil {
		limit = most
	}
	if limit == nil {
		return of, true
	}
	if limit.Type == intstr.String && len(validation.IsValidPercent(limit.StrVal)) > 0 || limit.IntVal < 0 {
		return 0, false
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(limit, of, true)
	if most == nil {
		n = max(of-n, 0)
	}
	return n, err == nil
}
