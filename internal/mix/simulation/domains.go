// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/internal/kube/display"
)

// maxValues bounds the values of one requirement.
const maxValues = 100

// Holder is a placeholder and the replica that it was created for. The UID is "" before it is created.
type Holder struct {
	UID, Replica types.UID
	Labels       map[string]string
}

// Domains are where a replacement may run by the pods that are there once some are gone, in a form that a placeholder can have. A
// placeholder has not the labels of a replica, so that no Service and no controller selects it, and the replica still runs: what the
// filters would count for the replacement has to be in the node affinity of the placeholder.
type Domains struct {
	// Requirements are those of a node. They hold for nodes that an autoscaler may add, too: a domain is closed or open by its pods.
	Requirements []corev1.NodeSelectorRequirement
	// Affinity and AntiAffinity are the required terms of the replacement that a placeholder must not have, because pods that
	// leave match them: all terms of affinity, which one pod has to match together, and those of anti-affinity by position. The
	// requirements stand in for them.
	Affinity     bool
	AntiAffinity []int
	// Unable is why no placeholder can have these domains, "" if one can.
	Unable string
	// Outside is set if the holder runs where the replacement may not.
	Outside bool
}

// rule is the values of a node label that are open or closed.
type rule struct {
	key string
	// only is set if the values are the open ones; without values, all are. Otherwise they are the closed ones.
	only   bool
	values map[string]bool
}

// admits reports whether a node is in an open domain.
func (r *rule) admits(node *corev1.Node) bool {
	value, there := node.Labels[r.key]
	if r.only {
		return there && (len(r.values) == 0 || r.values[value])
	}
	return !there || !r.values[value]
}

// Domains returns where the replacement of a question may run. The question names the nodes that are candidates; other holders are
// those of the same workload, and count as replicas.
func (s *Snapshot) Domains(q Question, own Holder, others []Holder) Domains {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := vacancy{next: s.profile.replacement(q), own: own, namespaces: s.namespaceLabels()}
	if err := s.distinguish(v.next); err != nil {
		return Domains{Unable: err.Error()}
	}
	gone := map[types.UID]bool{own.UID: true}
	v.now = s.base.without(gone)
	for _, uid := range q.Gone {
		gone[uid] = true
		if p, known := s.base.find(uid); known {
			v.leaving = append(v.leaving, p.info.GetPod())
		}
	}
	v.after = s.base.without(gone)
	held := map[types.UID]int{}
	for _, o := range others {
		gone[o.Replica] = true
		if p, known := s.base.find(o.UID); known {
			v.held = append(v.held, p.node)
			held[o.Replica] = p.node
		}
	}
	full := s.filled(q.Confined, own.Replica, gone, held)
	v.confine(full)
	quarantine := s.profile.avoided(&q, v.next, full, s.view.candidates(q.Nodes))
	if quarantine != nil { // a domain is the values of several labels, which requirements cannot exclude together
		v.unable("the replacement avoids %s in quarantine, and a placeholder cannot", display.Count(len(quarantine.Until), "interruption domain"))
	}
	if constraints := hard(v.next); len(constraints) > 0 {
		v.spread(constraints, s.base.without(gone))
	}
	if s.profile.replays[v.next.Spec.SchedulerName].filtersAffinity() {
		v.affinity()
		v.antiAffinity()
		v.existing()
	}
	for i := range v.rules {
		v.state(&v.rules[i], q.Nodes)
	}
	if p, known := s.base.find(own.UID); known {
		node := s.base.nodes[p.node].Node()
		_, interrupted := quarantine.Refuse(node.Labels)
		v.Outside = interrupted || slices.ContainsFunc(append(v.rules, v.kept...), func(r rule) bool { return !r.admits(node) })
	}
	return v.Domains
}

// state adds a rule to the requirements.
func (v *vacancy) state(r *rule, candidate func(*corev1.Node) bool) {
	values := maps.Clone(r.values)
	if r.key == corev1.LabelHostname && !r.only && candidate != nil {
		// A placeholder does not run on other nodes anyway, and no node is added to the domain of another one.
		for _, node := range v.now.nodes {
			if !candidate(node.Node()) {
				delete(values, node.Node().Labels[r.key])
			}
		}
	}
	switch {
	case len(values) > maxValues:
		v.unable("%d domains of %s are to be named by its node affinity, and at most %d can be", len(values), r.key, maxValues)
	case len(values) > 0:
		operator := corev1.NodeSelectorOpNotIn
		if r.only {
			operator = corev1.NodeSelectorOpIn
		}
		v.Requirements = append(v.Requirements, corev1.NodeSelectorRequirement{
			Key: r.key, Operator: operator, Values: slices.Sorted(maps.Keys(values)),
		})
	case r.only:
		v.Requirements = append(v.Requirements, corev1.NodeSelectorRequirement{Key: r.key, Operator: corev1.NodeSelectorOpExists})
	}
}

// unable notes the first reason.
func (d *Domains) unable(format string, args ...any) {
	if d.Unable == "" {
		d.Unable = fmt.Sprintf(format, args...)
	}
}

// spread adds the domains that the hard spread constraints close. A domain without a node is not closed.
func (v *vacancy) spread(constraints []*corev1.TopologySpreadConstraint, after *state) {
	held := make([]int, len(after.nodes))
	for _, node := range v.held {
		held[node]++
	}
	for _, c := range constraints {
		v.rules = append(v.rules, rule{key: c.TopologyKey, values: closedBy(c, v.next, after.nodes, held)})
	}
}
