// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"iter"
	"maps"
	"slices"
)

// MaxNamed is how many domains of a key are named, of those that have replicas and of those that pods without a node may get. Keys that
// divide a group into more domains, such as that of the host names, are left to the scheduler.
const MaxNamed = 100

// Occupancy is how full the domains of one limit are that forbids nodes, for a pod whose gate is to be removed.
type Occupancy struct {
	Key string
	Max int
	// Have is how many replicas each domain has that has some.
	Have map[string]int
	// Open is how many replicas have no node yet and may still get any, also in domains that come later: their gates are removed.
	// Excluded is how many of them each domain does not get.
	Open     int
	Excluded map[string]int
	// Named is how many replicas without a node each domain may get that get certain domains only.
	Named map[string]int
	// Own are the domains in which the unit of the pod is counted already.
	Own map[string]bool
	// Unnamed is set where there are more domains than can be named.
	Unnamed bool
}

// full reports whether a domain has as many replicas as it may have.
func (o *Occupancy) full(value string) bool {
	return !o.Unnamed && !o.Own[value] && o.Have[value] >= o.Max
}

// taken reports whether a domain has, or could get by replicas without a node, as many as it may have.
func (o *Occupancy) taken(value string) bool {
	return !o.Unnamed && !o.Own[value] && o.Have[value]+o.Open-o.Excluded[value]+o.Named[value] >= o.Max
}

// spoken reports whether the replicas without a node could fill a domain that is not there yet.
func (o *Occupancy) spoken() bool { return !o.Unnamed && o.Open >= o.Max }

// closed are the domains that a pod must not use.
func (o *Occupancy) closed() []string {
	if o.Unnamed {
		return nil
	}
	return slices.DeleteFunc(o.values(), func(value string) bool { return !o.taken(value) })
}

// Release decides which domains a pod may get whose gate is removed: every scheduler and every autoscaler keeps to its node affinity, and
// whatever they do, no domain gets more replicas than it may have. The affinity is final, so ok is false as long as replicas that have no
// node yet may fill the domains that the pod would need: it is decided again when one of them has its node.
//
// Nodes are the labels of those that the pod could use. If all of them are in full domains, the pod needs a node of another domain, and
// excludes these. Where the replicas without a node could fill a domain that is not there yet, it gets the domains of the nodes only that
// they cannot fill.
func Release(limits []Occupancy, nodes iter.Seq[map[string]string]) (to Confinement, ok bool) {
	to = Confinement{}
	only := false
	for i := range limits {
		o := &limits[i]
		if o.spoken() {
			to[o.Key], only = Confined{Only: true}, true
		} else if closed := o.closed(); len(closed) > 0 {
			to[o.Key] = Confined{Values: closed}
		}
	}
	if !only {
		return to, reachable(limits, nodes)
	}
	return to, to.name(limits, nodes)
}

// name names the domains of the nodes that are in none that is taken, and reports whether there are any.
func (c Confinement) name(limits []Occupancy, nodes iter.Seq[map[string]string]) (found bool) {
	for labels := range nodes {
		if taken(limits, labels) {
			continue
		}
		found = true
		for key, to := range c {
			if value := labels[key]; to.Only && len(to.Values) < MaxNamed && !slices.Contains(to.Values, value) {
				to.Values = append(to.Values, value)
				c[key] = to
			}
		}
	}
	for _, to := range c {
		slices.Sort(to.Values)
	}
	return found
}

// Safe reports whether no domain can get more replicas than it may have if one more pod is confined so.
func Safe(limits []Occupancy, to Confinement) bool {
	for i := range limits {
		o := &limits[i]
		switch c := to[o.Key]; {
		case c.Only && slices.ContainsFunc(c.Values, o.taken):
			return false
		case c.Only:
		case o.spoken(), slices.ContainsFunc(o.closed(), c.Allows):
			return false
		}
	}
	return true
}

// taken reports whether a node is in no domain of a limit, or in one that is taken.
func taken(limits []Occupancy, labels map[string]string) bool {
	return slices.ContainsFunc(limits, func(o Occupancy) bool {
		value, there := labels[o.Key]
		return !there || o.taken(value)
	})
}

// reachable reports whether a node is in no domain that is taken, or every node in one that is full.
func reachable(limits []Occupancy, nodes iter.Seq[map[string]string]) bool {
	allFull := true
	for labels := range nodes {
		if !taken(limits, labels) {
			return true
		}
		allFull = allFull && slices.ContainsFunc(limits, func(o Occupancy) bool {
			value, there := labels[o.Key]
			return !there || o.full(value)
		})
	}
	return allFull
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
