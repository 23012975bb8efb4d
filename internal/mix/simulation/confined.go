// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/domains"
)

// Confined is the group of a replacement whose mix limits how many replicas are in one domain. The plugin CapacityMix enforces it, which
// this package must not import; both use internal/mix/domains.
type Confined struct {
	limits []domains.Limit
	// size is how many replicas the group shall have.
	size int
	// units are those of the pods of the group, "" for a pod alone.
	units map[types.UID]string
}

// ConfinedBy returns the group of the replacement of one of its pods, nil if no domain is limited for certain.
func ConfinedBy(g *clusterstate.Group) *Confined {
	if g == nil || g.Governing == nil {
		return nil
	}
	c := &Confined{size: g.Replicas, units: map[types.UID]string{}}
	for _, l := range g.Governing.MaxPerDomain {
		if !l.Soft {
			c.limits = append(c.limits, l)
		}
	}
	if len(c.limits) == 0 {
		return nil
	}
	for i := range g.Assignments {
		for _, p := range g.Assignments[i].Members() {
			c.units[p.UID] = g.Assignments[i].Unit
		}
	}
	return c
}

// filled is a limit with what its domains have.
type filled struct {
	key    string
	unit   string
	max    int
	counts domains.Counts
}

// refuses returns why a node is in no domain for the replacement, "" if it may be.
func refuses(limits []filled, node *corev1.Node) string {
	for i := range limits {
		l := &limits[i]
		if r, refused := l.counts.Refuse(node.Labels, l.key, l.unit, l.max); refused {
			return r.Reason()
		}
	}
	return ""
}

// filled counts the replicas that stay in the domains of a group, for the replacement of one of its pods: those that are gone have no
// place any more, and the one that is replaced has none, also where it stays until its replacement runs. held are the nodes of the
// placeholders of replicas.
func (s *Snapshot) filled(c *Confined, replaced types.UID, gone map[types.UID]bool, held map[types.UID]int) (all []filled) {
	if c == nil {
		return nil
	}
	for _, l := range c.limits {
		all = append(all, filled{key: l.Key, unit: c.units[replaced], max: l.Max(c.size)})
	}
	count := func(uid types.UID, node int) {
		labels := s.base.nodes[node].Node().Labels
		for i := range all {
			all[i].counts.Add(labels, all[i].key, c.units[uid])
		}
	}
	for _, p := range s.base.placed {
		uid := p.uid
		if replaces, is := s.pods.replaces[uid]; is {
			uid = replaces
		} else if gone[uid] || uid == replaced {
			continue
		}
		if _, of := c.units[uid]; of {
			count(uid, p.node)
		}
	}
	for uid, node := range held {
		if _, of := c.units[uid]; of {
			count(uid, node)
		}
	}
	return all
}

// confine adds the domains that are full.
func (v *vacancy) confine(limits []filled) {
	for i := range limits {
		l := &limits[i]
		full := rule{key: l.key, values: map[string]bool{}}
		for _, value := range l.counts.Full(l.unit, l.max) {
			full.values[value] = true
		}
		v.rules = append(v.rules, rule{key: l.key, only: true}, full)
	}
}
