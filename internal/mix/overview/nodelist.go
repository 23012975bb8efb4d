// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"berth.dev/berth/internal/kube/display"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
)

// Nodes is what `nodes` shows.
type Nodes struct {
	Nodes  []NodeStatus `json:"nodes"`
	Totals []NodeTotal  `json:"totals"`
	Hint   string       `json:"hint,omitempty"`
	// Known counts the nodes of a known type, shown or not.
	Known int `json:"-"`
}

// NodeStatus is one node.
type NodeStatus struct {
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	Rule      string   `json:"rule,omitempty"`
	Domain    string   `json:"domain"`
	Departing string   `json:"departing,omitempty"`
	Accepts   bool     `json:"accepts"`
	Pods      NodePods `json:"pods"`
	// Zone and InstanceType are those of the well-known labels.
	Zone         string      `json:"zone,omitempty"`
	InstanceType string      `json:"instanceType,omitempty"`
	Created      metav1.Time `json:"created"`
}

// NodePods counts the governed pods of a node by the type of their slot.
type NodePods struct {
	Spot     int `json:"spot"`
	OnDemand int `json:"onDemand"`
	Borrowed int `json:"borrowed"`
}

// String is "3/0/1".
func (p NodePods) String() string { return fmt.Sprintf("%d/%d/%d", p.Spot, p.OnDemand, p.Borrowed) }

// NodeTotal sums the nodes of a type.
type NodeTotal struct {
	Type      string   `json:"type"`
	Nodes     int      `json:"nodes"`
	Accepting int      `json:"accepting"`
	Departing int      `json:"departing"`
	Pods      NodePods `json:"pods"`
}

// NodesOf returns the type of each node that a selector chooses, all with nil, or only the nodes of unknown type.
func NodesOf(c *Cluster, unknown bool, selector labels.Selector) *Nodes {
	pods := podsByNode(c)
	out := &Nodes{Nodes: []NodeStatus{}}
	objects := nodeObjects(c)
	all := chosenNodes(c, objects, selector)
	totals := map[capacity.Type]*NodeTotal{}
	for _, t := range typeNames {
		totals[t] = &NodeTotal{Type: t.String()}
	}
	for _, n := range all {
		totals[n.Type].count(n, pods[n.Name])
		if unknown && n.Type != capacity.Unknown {
			continue
		}
		s := NodeStatus{
			Name: n.Name, Type: n.Type.String(), Rule: n.Rule, Domain: n.Domain,
			Departing: n.Departing, Accepts: n.Accepting, Pods: pods[n.Name],
		}
		if o := objects[n.Name]; o != nil {
			s.Zone, s.InstanceType = o.Labels[corev1.LabelTopologyZone], o.Labels[corev1.LabelInstanceTypeStable]
			s.Created = o.CreationTimestamp
		}
		out.Nodes = append(out.Nodes, s)
	}
	out.Known = len(all) - totals[capacity.Unknown].Nodes
	for _, t := range typeNames {
		if !unknown || t == capacity.Unknown {
			out.Totals = append(out.Totals, *totals[t])
		}
	}
	if unknown && len(out.Nodes) > 0 {
		out.Hint = UnknownTypeHint
	}
	return out
}

// nodeObjects are the nodes as the API has them, by name.
func nodeObjects(c *Cluster) map[string]*corev1.Node {
	objects := make(map[string]*corev1.Node, len(c.Nodes))
	for _, n := range c.Nodes {
		objects[n.Name] = n
	}
	return objects
}

// chosenNodes are the nodes that a selector chooses, all with nil, by their names.
func chosenNodes(c *Cluster, objects map[string]*corev1.Node, selector labels.Selector) []clusterstate.Node {
	all := slices.DeleteFunc(slices.Clone(c.State.Nodes()), func(n clusterstate.Node) bool {
		return selector != nil && (objects[n.Name] == nil || !selector.Matches(labels.Set(objects[n.Name].Labels)))
	})
	slices.SortFunc(all, func(a, b clusterstate.Node) int { return display.Natural(a.Name, b.Name) })
	return all
}

// podsByNode counts the governed pods of all namespaces.
func podsByNode(c *Cluster) map[string]NodePods {
	pods := map[string]NodePods{}
	for _, namespace := range c.Namespaces() {
		for _, g := range c.State.Groups(namespace) {
			for _, s := range g.Assignments {
				for _, pod := range s.Members() {
					p := pods[pod.Node]
					p.add(s.Wants, s.Wants != c.State.Node(pod.Node).Type)
					pods[pod.Node] = p
				}
			}
		}
	}
	return pods
}

func (p *NodePods) add(slot capacity.Type, borrowed bool) {
	if slot == capacity.Spot {
		p.Spot++
	} else {
		p.OnDemand++
	}
	if borrowed {
		p.Borrowed++
	}
}

func (t *NodeTotal) count(n clusterstate.Node, p NodePods) {
	t.Nodes++
	if n.Accepting {
		t.Accepting++
	}
	if n.Departing != "" {
		t.Departing++
	}
	t.Pods = NodePods{Spot: t.Pods.Spot + p.Spot, OnDemand: t.Pods.OnDemand + p.OnDemand, Borrowed: t.Pods.Borrowed + p.Borrowed}
}

// typeNames are the types in the order in which they are shown.
var typeNames = []capacity.Type{capacity.Spot, capacity.OnDemand, capacity.Unknown}
