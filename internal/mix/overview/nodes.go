// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
)

// NodeGroup counts the nodes of a type in a zone.
type NodeGroup struct {
	Type string `json:"type"`
	// Zone is the failure domain, "" for nodes that name none. Of the groups by node pool, Zone is the name of the pool.
	Zone      string `json:"zone"`
	Nodes     int    `json:"nodes"`
	Accepting int    `json:"accepting"`
	Departing int    `json:"departing"`
	// Pods are those of the workloads of the overview.
	Pods Maybe[int] `json:"pods"`
}

// nodeFacts is a node with the number of its pods that were counted.
type nodeFacts struct {
	clusterstate.Node
	zone string
	pool string
	pods int
	// known is set where the node object was read.
	known bool
}

func nodesOf(in Input) map[string]*nodeFacts {
	nodes := make(map[string]*nodeFacts, len(in.Nodes))
	for _, n := range in.State.Nodes() {
		nodes[n.Name] = &nodeFacts{Node: n, known: true}
	}
	for _, n := range in.Nodes {
		if facts := nodes[n.Name]; facts != nil {
			facts.zone, facts.pool = n.Labels[corev1.LabelTopologyZone], capacity.PoolOf(n.Labels)
		}
	}
	return nodes
}

// node returns a node that a pod names, also one that was not read.
func (b *builder) node(name string) *nodeFacts {
	n := b.nodes[name]
	if n == nil {
		n = &nodeFacts{Node: b.State.Node(name)}
		b.nodes[name] = n
	}
	return n
}

// nodeGroups sums the nodes by type and place, in this order; nil where they were not read.
func (b *builder) nodeGroups(place func(*nodeFacts) string) []NodeGroup {
	if b.Unread.Nodes {
		return nil
	}
	type key struct {
		t    capacity.Type
		zone string
	}
	sums := map[key]*NodeGroup{}
	for _, n := range b.nodes {
		if !n.known {
			continue
		}
		k := key{n.Type, place(n)}
		g := sums[k]
		if g == nil {
			g = &NodeGroup{Type: n.Type.String(), Zone: display.Inert(k.zone, maxName)}
			if b.governedRead() {
				g.Pods = Known(0)
			}
			sums[k] = g
		}
		g.count(n)
	}
	groups := make([]NodeGroup, 0, len(sums))
	for _, g := range sums {
		groups = append(groups, *g)
	}
	slices.SortFunc(groups, func(a, b NodeGroup) int { return cmp.Or(order(a.Type)-order(b.Type), cmp.Compare(a.Zone, b.Zone)) })
	return groups
}

func (g *NodeGroup) count(n *nodeFacts) {
	g.Nodes++
	g.Pods = Part(g.Pods, func(pods int) int { return pods + n.pods })
	if n.Accepting {
		g.Accepting++
	}
	if n.Departing != "" {
		g.Departing++
	}
}

func order(name string) int {
	return slices.Index([]string{capacity.Spot.String(), capacity.OnDemand.String(), capacity.Unknown.String()}, name)
}
