// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Confinement is which domains a pod may get, by key. It may get any domain of other keys.
type Confinement map[string]Confined

// Confined is which domains of a key a pod may get: only those that are named or, without Only, any others.
type Confined struct {
	Only   bool
	Values []string
}

// Allows reports whether a pod may get a domain.
func (c Confined) Allows(value string) bool { return slices.Contains(c.Values, value) == c.Only }

// Either is the confinement of a pod that has one of two, and may get what one of them allows.
func Either(a, b Confinement) Confinement {
	all := Confinement{}
	for key, x := range a {
		y := b[key] // any domain
		switch {
		case x.Only && y.Only:
			all[key] = Confined{Only: true, Values: distinct(slices.Concat(x.Values, y.Values))}
			continue
		case x.Only:
			x, y = y, x
		}
		x.Values = slices.DeleteFunc(slices.Clone(x.Values), y.Allows)
		if len(x.Values) > 0 {
			all[key] = x
		}
	}
	return all
}

// distinct returns each value once, sorted.
func distinct(values []string) []string {
	slices.Sort(values)
	return slices.Compact(values)
}

// Requirements are those of the nodes of a pod that is confined, and not on nodes of no domain.
func Requirements(limits []Occupancy, to Confinement) (list []corev1.NodeSelectorRequirement) {
	for i := range limits {
		key := limits[i].Key
		list = append(list, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpExists})
		if c := to[key]; len(c.Values) > 0 {
			r := corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpNotIn, Values: c.Values}
			if c.Only {
				r.Operator = corev1.NodeSelectorOpIn
			}
			list = append(list, r)
		}
	}
	return list
}

// ConfinedBy is the confinement by requirements. Of a key, the first one counts that names domains: Requirements adds no other, and what a
// tenant writes in their place costs no more.
func ConfinedBy(requirements []corev1.NodeSelectorRequirement) Confinement {
	var to Confinement
	for _, r := range requirements {
		only := r.Operator == corev1.NodeSelectorOpIn
		if _, known := to[r.Key]; known || !only && r.Operator != corev1.NodeSelectorOpNotIn {
			continue
		}
		if to == nil {
			to = Confinement{}
		}
		to[r.Key] = Confined{Only: only, Values: distinct(slices.Clone(r.Values[:min(len(r.Values), 2*MaxNamed)]))}
	}
	return to
}

// values are all domains of a limit of which something is known.
func (o *Occupancy) values() []string {
	return distinct(slices.Concat(slices.Collect(maps.Keys(o.Have)), slices.Collect(maps.Keys(o.Named))))
}
