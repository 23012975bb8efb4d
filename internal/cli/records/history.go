// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/access"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/cli/show"
)

const aboutHistory = `Shows what happened to a record, the newest last: its events, which the cluster keeps for an hour by default, and the last applied
recommendations, which the record itself keeps.`

func newHistory(o *command.Options) *cobra.Command {
	cmd := aRecord(o, "history", "Show the events of a record", aboutHistory, "  kubectl berth records history cart",
		func(ctx context.Context, _ client.Client, rec *v1alpha1.DeploymentRecord) error {
			_, u, err := access.User(o)
			if err != nil {
				return err
			}
			return show.History(o, u.RecordHistory(ctx, rec))
		})
	o.OutputFlag(cmd, printers.JSON, printers.YAML)
	return cmd
}
