// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/access"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/cli/show"
)

const aboutHistory = `Shows what happened to a workload, the newest last: its moves with the free capacity that they were based on, why others were not made, and the
events of its current pods. The cluster keeps events for an hour by default. KIND is any kind that the API server knows, such as deployment,
sts or mix.`

const historyExamples = `  kubectl berth history deployment/web
  kubectl berth history mix/web -n shop -o json`

// NewHistory returns the command history.
func NewHistory(o *command.Options) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "history KIND/NAME",
		Short:             "Show the moves and events of a workload",
		Long:              aboutHistory,
		Example:           historyExamples,
		Args:              command.Names(1, 1),
		ValidArgsFunction: o.CompleteTargets(nil),
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := command.TargetOf(args[0])
			if err != nil || target.Kind == "" {
				return fmt.Errorf("%q must be KIND/NAME, such as deployment/web", args[0])
			}
			namespace, u, err := access.User(o)
			if err != nil {
				return err
			}
			h, err := u.History(cmd.Context(), target.Kind, client.ObjectKey{Namespace: namespace, Name: target.Name})
			if err != nil {
				return err
			}
			return show.History(o, h)
		},
	}
	o.OutputFlag(cmd, printers.JSON, printers.YAML)
	return cmd
}
