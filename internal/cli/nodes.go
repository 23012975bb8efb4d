// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"berth.dev/berth/internal/cli/live"
	"berth.dev/berth/internal/mix/capacity"
)

const aboutNodes = `Shows what Berth takes each node for, and by which rule. PODS are those that a mix governs, of all namespaces:
on spot slots / on on-demand slots / borrowed.`

const unknownHint = "no rule fits the labels: name the label in the plugin's nodeRules, or label the node " +
	"node.kubernetes.io/lifecycle=spot or =on-demand (docs/node-types.md)"

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

func newNodes(o *options) *cobra.Command {
	unknown := false
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "Show the capacity type of each node",
		Long:  aboutNodes,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, cluster, err := o.load(cmd.Context(), "")
			if err != nil {
				return err
			}
			if cluster.Missing("nodes") {
				return fmt.Errorf("nodes cannot be listed")
			}
			return o.showNodes(nodesOf(cluster, unknown))
		},
	}
	cmd.Flags().BoolVar(&unknown, "unknown", false, "Only nodes whose type is not known.")
	o.outputFlag(cmd, asJSON, asYAML)
	return cmd
}

// nodesOf says what each node is treated as.
func nodesOf(c *live.Cluster, unknown bool) *Nodes {
	pods := podsByNode(c)
	out := &Nodes{Nodes: []NodeStatus{}}
	all := c.State.Nodes()
	slices.SortFunc(all, func(a, b fleetNode) int { return cmp.Compare(a.Name, b.Name) })
	totals := map[capacity.Type]*NodeTotal{}
	for _, t := range typeNames {
		totals[t] = &NodeTotal{Type: t.String()}
	}
	for _, n := range all {
		totals[n.Type].count(n, pods[n.Name])
		if unknown && n.Type != capacity.Unknown {
			continue
		}
		out.Nodes = append(out.Nodes, NodeStatus{Name: n.Name, Type: n.Type.String(), Rule: n.Rule, Domain: n.Domain, Departing: n.Departing, Accepts: n.Accepting, Pods: pods[n.Name]})
	}
	for _, t := range typeNames {
		if !unknown || t == capacity.Unknown {
			out.Totals = append(out.Totals, *totals[t])
		}
	}
	if unknown && len(out.Nodes) > 0 {
		out.Hint = unknownHint
	}
	return out
}

// podsByNode counts the governed pods of all namespaces.
func podsByNode(c *live.Cluster) map[string]NodePods {
	pods := map[string]NodePods{}
	for _, namespace := range c.Namespaces() {
		for _, g := range c.State.Groups(namespace) {
			for _, s := range g.Seats {
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

func (t *NodeTotal) count(n fleetNode, p NodePods) {
	t.Nodes++
	if n.Accepting {
		t.Accepting++
	}
	if n.Departing != "" {
		t.Departing++
	}
	t.Pods = NodePods{Spot: t.Pods.Spot + p.Spot, OnDemand: t.Pods.OnDemand + p.OnDemand, Borrowed: t.Pods.Borrowed + p.Borrowed}
}

func (o *options) showNodes(n *Nodes) error {
	if done, err := o.printed(n); done {
		return err
	}
	if len(n.Nodes) == 0 {
		fmt.Fprintln(o.ErrOut, "No such nodes.")
		return nil
	}
	t := &table{header: []string{"NAME", "TYPE", "RULE", "DOMAIN", "DEPARTING", "ACCEPTS", "PODS"}}
	for _, s := range n.Nodes {
		t.add(s.Name, s.Type, s.Rule, s.Domain, s.Departing, strconv.FormatBool(s.Accepts), s.Pods.String())
	}
	if err := t.write(o.Out, false); err != nil {
		return err
	}
	fmt.Fprintln(o.Out)
	sums := &table{header: []string{"TYPE", "NODES", "ACCEPTING", "DEPARTING", "PODS"}}
	for _, s := range n.Totals {
		sums.add(s.Type, number(s.Nodes), number(s.Accepting), number(s.Departing), s.Pods.String())
	}
	if err := sums.write(o.Out, false); err != nil {
		return err
	}
	if n.Hint != "" {
		fmt.Fprintf(o.Out, "\n%s.\n", upper(n.Hint))
	}
	return nil
}
