// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"github.com/spf13/cobra"

	"berth.dev/berth/internal/cli/access"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/cli/show"
)

const aboutNodes = `Shows the capacity type of each node and the rule that determines it. PODS are the governed pods of all namespaces: on spot slots / on
on-demand slots / borrowed.

With --domains, shows the interruption domains of spot nodes: the share of the governed pods on spot nodes that run there, how many nodes
were interrupted (each counts half after an hour), and until when the scheduler avoids the domain.`

// NewNodes returns the command nodes.
func NewNodes(o *command.Options) *cobra.Command {
	unknown, domains := false, false
	cmd := &cobra.Command{
		Use:     "nodes",
		Short:   "Show the capacity type of each node",
		Long:    aboutNodes,
		Example: "  kubectl berth nodes -o wide\n  kubectl berth nodes --unknown\n  kubectl berth nodes --domains",
		Args:    command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, u, err := access.User(o)
			if err != nil {
				return err
			}
			if domains {
				d, err := u.Domains(cmd.Context())
				if err != nil {
					return err
				}
				return show.Domains(o, d)
			}
			n, err := u.Nodes(cmd.Context(), unknown, o.Selector())
			if err != nil {
				return err
			}
			return show.Nodes(o, n)
		},
	}
	cmd.Flags().BoolVar(&unknown, "unknown", false, "Show only nodes of unknown type.")
	cmd.Flags().BoolVar(&domains, "domains", false, "Show the interruption domains of spot nodes.")
	o.WatchFlag(cmd)
	o.SelectorFlag(cmd, "for nodes")
	cmd.MarkFlagsMutuallyExclusive("domains", "unknown")
	cmd.MarkFlagsMutuallyExclusive("domains", "selector")
	o.OutputFlag(cmd, printers.Wide, printers.JSON, printers.YAML, printers.Name)
	return cmd
}
