// SPDX-License-Identifier: Apache-2.0

package mix

import (
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/cli/access"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/decisions"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/cli/show"
)

const aboutExplain = `Shows why a pod is on its node: the mix that governs it, its slot and the type of that slot, the type of its node and the label that
determines it, why it is borrowed, what would move it, and when a scale-down removes it; also its ResourceLimit, whether the pod is within it, and
how many nodes match it. The reason follows in a sentence.

Of a workload, such as deployment/web, it explains the pod that needs it most: one that is borrowed, pending or departing, if there is one.

With --scores it also shows how berth-scheduler decided in its last attempts to schedule the pod, as far as the SchedulingPolicy of the pod records
them (spec.decisions.record): the scores of the best nodes, or why all nodes were rejected. It forwards a port to the leading berth-scheduler, which
requires the verbs get on leases and create on pods/portforward in the namespace of Berth. The scheduler serves the records of pods that you may get.`

// NewExplain returns the command explain.
func NewExplain(o *command.Options) *cobra.Command {
	scores := &decisions.Flags{}
	cmd := &cobra.Command{
		Use:   "explain POD|KIND/NAME",
		Short: "Explain why a pod is on its node",
		Long:  aboutExplain,
		Example: "  kubectl berth explain web-7dd8c6474c-x2x4z\n  kubectl berth explain web-0 -n shop -o json\n" +
			"  kubectl berth explain deployment/web\n  kubectl berth explain web-0 --scores --attempts 3",
		Args:              command.Names(1, 1),
		ValidArgsFunction: o.CompleteTargets(&corev1.PodList{}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := scores.Validate(cmd); err != nil {
				return err
			}
			target, err := command.TargetOf(args[0])
			if err != nil {
				return err
			}
			namespace, u, err := access.User(o)
			if err != nil {
				return err
			}
			key := client.ObjectKey{Namespace: namespace, Name: target.Name}
			if target.Kind != "" {
				name, note, err := u.PodOf(cmd.Context(), target.Kind, key)
				if err != nil {
					return err
				}
				if key.Name = name; note != "" {
					o.Note("%s", note)
				}
			}
			e, err := u.Explain(cmd.Context(), key, scores.Reader(decisions.Access{
				Config: u.Config, Client: u.Client, SystemNamespace: u.SystemNamespace, Now: u.Now(),
			}))
			if err != nil {
				return err
			}
			return show.Explanation(o, e)
		},
	}
	scores.Add(cmd)
	o.OutputFlag(cmd, printers.JSON, printers.YAML)
	return cmd
}
