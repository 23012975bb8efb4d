// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// MaxNamed is how many domains of a key the node affinity of a pod may name. Keys that divide a group into more domains,
// such as that of the host names, are left to the scheduler.
const MaxNamed = 100

// Occupancy is how full the domains of one limit are that forbids nodes, for a pod whose gate is to be removed.
type Occupancy struct {
	Key string
	Max int
	// Have is how many replicas each domain has that has some.
	Have map[string]int
	// Open is how many replicas have no node yet and may still get any: their gates are removed. Excluded is how many of
	// them each domain does not get.
	Open     int
	Excluded map[string]int
	// Unnamed is set where there are more domains than can be named.
	Unnamed bool
}

// full reports whether a domain has as many replicas as it may have.
func (o *Occupancy) full(value string) bool { return o.Have[value] >= o.Max }

// taken reports whether a domain has, or could get by replicas without a node, as many as it may have.
func (o *Occupancy) taken(value string) bool {
	return o.Have[value]+o.Open-o.Excluded[value] >= o.Max
}

// closed are the domains that a pod must not use.
func (o *Occupancy) closed() []string {
	if o.Unnamed {
		return nil
	}
	var values []string
	for value := range o.Have {
		if o.taken(value) {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return values
}

// Release decides which domains, by key, a pod must not use whose gate is removed: every scheduler and every autoscaler
// keeps to its node affinity, and whatever they do, no domain gets more replicas than it may have. The affinity is final,
// so ok is false as long as replicas that have no node yet may fill the domains that the pod would need: it is decided
// again when one of them has its node. Nodes are the labels of those that the pod could use. If all of them are in full
// domains, the pod needs a node of another domain, and excludes these.
func Release(limits []Occupancy, nodes iter.Seq[map[string]string]) (barred map[string][]string, ok bool) {
	if slices.ContainsFunc(limits, func(o Occupancy) bool { return !o.Unnamed && o.Open >= o.Max }) {
		return nil, false // they could fill a domain that is not there yet
	}
	for i := range limits {
		if closed := limits[i].closed(); len(closed) > 0 {
			if barred == nil {
				barred = map[string][]string{}
			}
			barred[limits[i].Key] = closed
		}
	}
	return barred, reachable(limits, nodes)
}

// Requirements are those of the nodes of a pod that must not use some domains, nor nodes of no domain.
func Requirements(limits []Occupancy, barred map[string][]string) (list []corev1.NodeSelectorRequirement) {
	for i := range limits {
		key := limits[i].Key
		list = append(list, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpExists})
		if values := barred[key]; len(values) > 0 {
			list = append(list, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpNotIn, Values: values})
		}
	}
	return list
}

// reachable reports whether a node is in no domain that is taken, or every node in one that is full.
func reachable(limits []Occupancy, nodes iter.Seq[map[string]string]) bool {
	allFull := true
	for labels := range nodes {
		taken, full := false, false
		for i := range limits {
			o := &limits[i]
			value, there := labels[o.Key]
			taken = taken || !there || !o.Unnamed && o.taken(value)
			full = full || !there || !o.Unnamed && o.full(value)
		}
		if !taken {
			return true
		}
		allFull = allFull && full
	}
	return allFull
}

// Barred are the domains of each key that requirements exclude.
func Barred(requirements []corev1.NodeSelectorRequirement) (barred map[string][]string) {
	for _, r := range requirements {
		if r.Operator == corev1.NodeSelectorOpNotIn {
			if barred == nil {
				barred = map[string][]string{}
			}
			barred[r.Key] = append(barred[r.Key], r.Values[:min(len(r.Values), MaxNamed)]...)
		}
	}
	return barred
}

// Counts is how many replicas each domain of a key has. A unit of pods counts once in each domain that has one of them.
type Counts struct {
	have  map[string]int
	units map[unitIn]bool
}

// unitIn is a unit in a domain.
type unitIn struct{ unit, value string }

// Add counts a pod on a node with these labels. unit is "" for a pod that is a replica alone.
func (c *Counts) Add(labels map[string]string, key, unit string) {
	value, there := labels[key]
	if !there || unit != "" && c.units[unitIn{unit, value}] {
		return
	}
	if c.have == nil {
		c.have, c.units = map[string]int{}, map[unitIn]bool{}
	}
	c.have[value]++
	if unit != "" {
		c.units[unitIn{unit, value}] = true
	}
}

// Refuse returns why a limit of a number does not admit one more pod on a node with these labels.
func (c *Counts) Refuse(labels map[string]string, key, unit string, most int) (r Refusal, refused bool) {
	value, there := labels[key]
	switch {
	case !there:
		return Refusal{Key: key, Unlabelled: true}, true
	case unit != "" && c.units[unitIn{unit, value}], c.have[value] < most:
		return Refusal{}, false
	}
	return Refusal{Key: key, Value: value, Have: c.have[value], Max: most}, true
}

// Full are the domains that admit no more pod of a unit, sorted.
func (c *Counts) Full(unit string, most int) (values []string) {
	for _, value := range slices.Sorted(maps.Keys(c.have)) {
		if c.have[value] >= most && (unit == "" || !c.units[unitIn{unit, value}]) {
			values = append(values, value)
		}
	}
	return values
}

// In is how many replicas a domain has.
func (c *Counts) In(value string) int { return c.have[value] }
