// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/domains"
)

// maxFull bounds the full domains that an explanation names.
const maxFull = 8

// DomainFacts are how full the domains of one limit of maxPerDomain are.
type DomainFacts struct {
	TopologyKey string `json:"topologyKey"`
	// Limit is the limit in words, and Max how many replicas of the group a domain may have.
	Limit string `json:"limit"`
	Max   int    `json:"max"`
	// Domain is that of the pod's node, and Replicas is how many it has. Absent without a node, or if that is in no domain.
	Domain   string `json:"domain,omitempty"`
	Replicas int    `json:"replicas,omitempty"`
	// Full are the domains that admit no further replica, at most 8 of FullCount.
	Full      []string `json:"full,omitempty"`
	FullCount int      `json:"fullCount,omitempty"`
	// fillable: pods without a node, whose gates are removed, could fill a domain.
	fillable bool
}

// holds reports whether the gate of the pod may stay because of the limit.
func (f DomainFacts) holds() bool { return f.fillable }

// domainFacts are nil for a mix without limits, and unknown where the nodes were not read.
func (e *explainer) domainFacts(g *clusterstate.Group, a *clusterstate.Assignment) (all []DomainFacts) {
	if len(g.Governing.MaxPerDomain) == 0 || e.Cluster.Missing("nodes") {
		return nil
	}
	nodes := map[string]map[string]string{}
	for _, n := range e.Cluster.Nodes {
		nodes[n.Name] = n.Labels
	}
	for _, l := range g.Governing.MaxPerDomain {
		var counts domains.Counts
		for i := range g.Assignments {
			for _, p := range g.Assignments[i].Members() {
				counts.Add(nodes[p.Node], l.Key, g.Assignments[i].Unit)
			}
		}
		f := DomainFacts{TopologyKey: l.Key, Limit: l.String(), Max: l.Max(g.Replicas), Domain: nodes[e.record.Node][l.Key]}
		f.Replicas = counts.In(f.Domain) // none without a domain
		full := counts.Full(a.Unit, f.Max)
		f.Full, f.FullCount = full[:min(len(full), maxFull)], len(full)
		if open := withoutNode(g); open > 0 && !l.Soft && !e.record.OtherGates {
			f.fillable = open >= f.Max || len(counts.Full(a.Unit, f.Max-open)) > 0
		}
		all = append(all, f)
	}
	return all
}

// String is the state of a limit in one line.
func (f DomainFacts) String() string {
	text := fmt.Sprintf("%s (%d now)", f.Limit, f.Max)
	if f.Domain != "" {
		text += fmt.Sprintf("; %s has %d", f.Domain, f.Replicas)
	}
	if f.FullCount == 0 {
		return text + "; no domain is full"
	}
	text += "; " + display.Clause(f.FullCount, "domain", "is", "are") + " full: " + strings.Join(f.Full, ", ")
	if f.FullCount > len(f.Full) {
		text += ", …"
	}
	return text
}

// withoutNode is how many replicas have no node yet of which the gate is removed.
func withoutNode(g *clusterstate.Group) (n int) {
	for i := range g.Assignments {
		if slices.ContainsFunc(g.Assignments[i].Members(), func(p *clusterstate.Pod) bool {
			return p.Node == "" && p.LimitedTo != capacity.Unknown
		}) {
			n++
		}
	}
	return n
}
