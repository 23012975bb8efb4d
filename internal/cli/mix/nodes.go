// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"fmt"

	"github.com/spf13/cobra"

	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/mix/overview"
)

const aboutNodes = `Shows the capacity type of each node and the rule that determines it. PODS are the governed pods of all namespaces: on spot slots / on
on-demand slots / borrowed.`

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
			_, u, err := o.User()
			if err != nil {
				return err
			}
			n, err := u.Nodes(cmd.Context(), unknown)
			if err != nil {
				return err
			}
			return ShowNodes(o, n)
		},
	}
	cmd.Flags().BoolVar(&unknown, "unknown", false, "Show only nodes of unknown type.")
	o.OutputFlag(cmd, printers.JSON, printers.YAML)
	return cmd
}

// ShowNodes prints the nodes, and sums by type.
func ShowNodes(o *command.Options, n *overview.Nodes) error {
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
