// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/mix/capacity"
	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/overview"
)

const aboutNodes = `Shows the capacity type of each node and the rule that determines it. PODS are the governed pods of all namespaces: on spot slots / on
on-demand slots / borrowed.`

// Nodes is what `nodes` shows.
type Nodes struct {
	Nodes  []NodeStatus `json:"nodes"`
	Totals []NodeTotal  `json:"totals"`
	Hint   string       `json:"hint,omitempty"`
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

// NewNodes returns the command nodes.
func NewNodes(o *command.Options) *cobra.Command {
	unknown := false
	cmd := &cobra.Command{
		Use:     "nodes",
		Short:   "Show the capacity type of each node",
		Long:    aboutNodes,
		Example: "  kubectl berth nodes\n  kubectl berth nodes --unknown",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := ReadNodes(cmd.Context(), o, unknown)
			if err != nil {
				return err
			}
			return n.Show(o)
		},
	}
	cmd.Flags().BoolVar(&unknown, "unknown", false, "Show only nodes of unknown type.")
	o.OutputFlag(cmd, printers.JSON, printers.YAML)
	return cmd
}

// ReadNodes returns the type of each node, or only the nodes of unknown type.
func ReadNodes(ctx context.Context, o *command.Options, unknown bool) (*Nodes, error) {
	_, cluster, err := load(ctx, o, "")
	if err != nil {
		return nil, err
	}
	if cluster.Missing("nodes") {
		return nil, errors.New("cannot list nodes")
	}
	return nodesOf(cluster, unknown), nil
}

// nodesOf returns the type of each node.
func nodesOf(c *overview.Cluster, unknown bool) *Nodes {
	pods := podsByNode(c)
	out := &Nodes{Nodes: []NodeStatus{}}
	all := c.State.Nodes()
	slices.SortFunc(all, func(a, b clusterstate.Node) int { return cmp.Compare(a.Name, b.Name) })
	totals := map[capacity.Type]*NodeTotal{}
	for _, t := range typeNames {
		totals[t] = &NodeTotal{Type: t.String()}
	}
	for _, n := range all {
		totals[n.Type].count(n, pods[n.Name])
		if unknown && n.Type != capacity.Unknown {
			continue
		}
		out.Nodes = append(out.Nodes, NodeStatus{
			Name: n.Name, Type: n.Type.String(), Rule: n.Rule, Domain: n.Domain,
			Departing: n.Departing, Accepts: n.Accepting, Pods: pods[n.Name],
		})
	}
	for _, t := range typeNames {
		if !unknown || t == capacity.Unknown {
			out.Totals = append(out.Totals, *totals[t])
		}
	}
	if unknown && len(out.Nodes) > 0 {
		out.Hint = overview.UnknownTypeHint
	}
	return out
}

// podsByNode counts the governed pods of all namespaces.
func podsByNode(c *overview.Cluster) map[string]NodePods {
	pods := map[string]NodePods{}
	for _, namespace := range c.Namespaces() {
		for _, g := range c.State.Groups(namespace) {
			for _, s := range g.Assignments {
				p := pods[s.Pod.Node]
				p.add(s.Wants, s.Wants != c.State.Node(s.Pod.Node).Type)
				pods[s.Pod.Node] = p
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

// Show prints the nodes, and sums by type.
func (n *Nodes) Show(o *command.Options) error {
	if done, err := o.Print(n); done {
		return err
	}
	if len(n.Nodes) == 0 {
		fmt.Fprintln(o.ErrOut, "No nodes found.")
		return nil
	}
	t := &printers.Table{Header: []string{"NAME", "TYPE", "RULE", "DOMAIN", "DEPARTING", "ACCEPTS", "PODS"}}
	for _, s := range n.Nodes {
		t.Add(s.Name, s.Type, s.Rule, s.Domain, s.Departing, s.Accepts, s.Pods)
	}
	sums := &printers.Table{Header: []string{"TYPE", "NODES", "ACCEPTING", "DEPARTING", "PODS"}}
	for _, s := range n.Totals {
		sums.Add(s.Type, s.Nodes, s.Accepting, s.Departing, s.Pods)
	}
	if err := o.WriteTables(nil, t, sums); err != nil {
		return err
	}
	if n.Hint != "" {
		fmt.Fprintf(o.Out, "\n%s.\n", printers.Upper(n.Hint))
	}
	return nil
}

// typeNames are the types in the order in which they are shown.
var typeNames = []capacity.Type{capacity.Spot, capacity.OnDemand, capacity.Unknown}
